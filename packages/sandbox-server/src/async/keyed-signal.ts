/** A bell for each id: rings after a change. A ring carries nothing: look again. */
export class KeyedSignal {
  readonly #waiters = new Map<string, Set<() => void>>()

  notify(key: string): void {
    const waiters = this.#waiters.get(key)
    this.#waiters.delete(key)
    for (const wake of waiters ?? []) wake()
  }

  /**
   * The first value of `look` that is not undefined; it is called at once and after each ring. Rejects with the signal's reason
   * when that comes first.
   */
  async until<T>(key: string, read: () => Promise<T | undefined>, signal: AbortSignal): Promise<T> {
    for (;;) {
      signal.throwIfAborted()
      // Taken before looking: what rings in between is not missed.
      const { notified, unsubscribe } = this.#subscribe(key, signal)
      try {
        const value = await read()
        if (value !== undefined) return value
        await notified
      } finally {
        unsubscribe()
      }
    }
  }

  /** How many wait. */
  get waiting(): number {
    return [...this.#waiters.values()].reduce((sum, { size }) => sum + size, 0)
  }

  #subscribe(
    key: string,
    signal: AbortSignal,
  ): { readonly notified: Promise<void>; readonly unsubscribe: () => void } {
    const { promise, resolve } = Promise.withResolvers<void>()
    const wake = () => resolve()
    const waiting = this.#waiters.get(key) ?? new Set()
    this.#waiters.set(key, waiting.add(wake))
    signal.addEventListener('abort', wake, { once: true })
    const unsubscribe = () => {
      signal.removeEventListener('abort', wake)
      waiting.delete(wake)
      if (waiting.size === 0 && this.#waiters.get(key) === waiting) this.#waiters.delete(key)
    }
    return { notified: promise, unsubscribe }
  }
}
