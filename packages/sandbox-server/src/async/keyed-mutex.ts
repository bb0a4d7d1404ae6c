/** Work by name: of one name one after another in the order of the calls, of different names at once. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** Answers or rejects as the work does; what comes behind it runs either way. */
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
}
