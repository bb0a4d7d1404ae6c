/** A mutex for each key: calls with the same key run one after another in the order of the calls, others at the same time. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** Settles as `work` does. A failure does not stop the calls behind it. */
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

  /** How many keys are in use. */
  get size(): number {
    return this.#tails.size
  }
}

/** One at a time, in the order of the calls. */
export class Mutex {
  readonly #keys = new KeyedMutex()

  /** Settles as `work` does. A failure does not stop the calls behind it. */
  runExclusive<T>(work: () => Promise<T>): Promise<T> {
    return this.#keys.runExclusive('', work)
  }
}
