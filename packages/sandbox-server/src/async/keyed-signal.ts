/** A bell for each id: rings after a change. A ring carries nothing: look again. */
export class Rings {
  readonly #waiting = new Map<string, Set<() => void>>()

  ring(id: string): void {
    const waiting = this.#waiting.get(id)
    this.#waiting.delete(id)
    for (const wake of waiting ?? []) wake()
  }

  /**
   * The first value of `look` that is not undefined; it is called at once and after each ring. Rejects with the signal's reason
   * when that comes first.
   */
  async until<T>(id: string, look: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
    for (;;) {
      signal.throwIfAborted()
      // Taken before looking: what rings in between is not missed.
      const { rung, drop } = this.#next(id, signal)
      try {
        const found = await look()
        if (found !== undefined) return found
        await rung
      } finally {
        drop()
      }
    }
  }

  /** How many wait. */
  get waiting(): number {
    return [...this.#waiting.values()].reduce((sum, { size }) => sum + size, 0)
  }

  #next(id: string, signal: AbortSignal): { readonly rung: Promise<void>; readonly drop: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>()
    const wake = () => resolve()
    const waiting = this.#waiting.get(id) ?? new Set()
    this.#waiting.set(id, waiting.add(wake))
    signal.addEventListener('abort', wake, { once: true })
    const drop = () => {
      signal.removeEventListener('abort', wake)
      waiting.delete(wake)
      if (waiting.size === 0 && this.#waiting.get(id) === waiting) this.#waiting.delete(id)
    }
    return { rung: promise, drop }
  }
}
