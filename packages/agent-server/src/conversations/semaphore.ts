/** So many at a time; the others wait in the order in which they came. */
export class Semaphore {
  #available: number
  readonly #waiting: (() => void)[] = []
  readonly #count: number

  constructor(count: number) {
    this.#available = count
    this.#count = count
  }

  /** Who has a turn. */
  get activeCount(): number {
    return this.#count - this.#available
  }

  get waitingCount(): number {
    return this.#waiting.length
  }

  /** Resolves when it is one's turn, with what gives it back. When the signal aborts first, there was no turn to give back. */
  async acquire(signal: AbortSignal): Promise<() => void> {
    if (this.#available > 0) this.#available--
    else if (!(await this.#wait(signal))) return () => undefined
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      const next = this.#waiting.shift()
      if (next === undefined) this.#available++
      else next()
    }
  }

  #wait(signal: AbortSignal): Promise<boolean> {
    return new Promise((resolve) => {
      const grant = () => {
        signal.removeEventListener('abort', onAbort)
        resolve(true)
      }
      const onAbort = () => {
        this.#waiting.splice(this.#waiting.indexOf(grant), 1)
        resolve(false)
      }
      if (signal.aborted) return resolve(false)
      signal.addEventListener('abort', onAbort, { once: true })
      this.#waiting.push(grant)
    })
  }
}
