/** Work by name: of one name one after another in the order of the calls, of different names at once. */
export class Lanes {
  readonly #last = new Map<string, Promise<unknown>>()

  /** Answers or rejects as the work does; what comes behind it runs either way. */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(name)
    const mine = (async () => {
      await before?.catch(() => undefined)
      return await work()
    })()
    this.#last.set(name, mine)
    try {
      return await mine
    } finally {
      if (this.#last.get(name) === mine) this.#last.delete(name)
    }
  }
}
