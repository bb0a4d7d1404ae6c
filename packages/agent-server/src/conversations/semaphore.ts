/** So many at a time; the others wait in the order in which they came. */
export class Turns {
  #free: number
  readonly #waiting: (() => void)[] = []
  readonly #count: number

  constructor(count: number) {
    this.#free = count
    this.#count = count
  }

  /** Who has a turn. */
  get active(): number {
    return this.#count - this.#free
  }

  get waiting(): number {
    return this.#waiting.length
  }

  /** Resolves when it is one's turn, with what gives it back. When the signal aborts first, there was no turn to give back. */
  async take(signal: AbortSignal): Promise<() => void> {
    if (this.#free > 0) this.#free--
    else if (!(await this.#wait(signal))) return () => undefined
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      const next = this.#waiting.shift()
      if (next === undefined) this.#free++
      else next()
    }
  }

  #wait(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const mine = () => {
        signal.removeEventListener('abort', leave)
        resolve(true)
      }
      const leave = () => {
        this.#waiting.splice(this.#waiting.indexOf(mine), 1)
        resolve(false)
      }
      if (signal.aborted) return resolve(false)
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(mine)
    })
  }
}
