/** A mutex for each key: calls with the same key run one at a time, in order; others run concurrently. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** Settles as `work` does. A failure does not affect later calls. */
  async runExclusive<T>(key: string, work: () => Promise<T>): Promise<T> {
    const previous = this.#tails.get(key)
    const current = (async () => {
      await previous?.catch(() => undefined)
      return await work()
    })()
    this.#tails.set(key, current)
    try {
      return await current
    } finally {
      if (this.#tails.get(key) === current) this.#tails.delete(key)
    }
  }

  /** Number of keys in use. */
  get size(): number {
    return this.#tails.size
  }
}

/** Runs calls one at a time, in order. */
export class Mutex {
  readonly #keys = new KeyedMutex()

  /** Settles as `work` does. A failure does not affect later calls. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#keys.runExclusive('', work)
  }
}
