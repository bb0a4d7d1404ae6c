/** At most so many at the same time; the others wait in the order in which they came. */
export class Gate {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(width: number) {
    this.#free = width
  }

  async hold<T>(work: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#free += 1
      else next()
    }
  }
}
