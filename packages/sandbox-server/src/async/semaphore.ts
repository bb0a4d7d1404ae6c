/** At most so many at the same time; the others wait in the order in which they came. */
export class Semaphore {
  #available: number
  readonly #queue: (() => void)[] = []

  constructor(permits: number) {
    this.#available = permits
  }

  async run<T>(work: () => Promise<T>): Promise<T> {
    if (this.#available > 0) this.#available -= 1
    else await new Promise<void>((resolve) => this.#queue.push(resolve))
    try {
      return await work()
    } finally {
      const next = this.#queue.shift()
      if (next === undefined) this.#available += 1
      else next()
    }
  }
}
