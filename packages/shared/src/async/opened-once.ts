/** What is opened by the first use and shared by all. A failure is not kept: the next use tries again. */
export class OpenedOnce<T> {
  readonly #open: () => Promise<T>
  #opened: Promise<T> | undefined

  constructor(open: () => Promise<T>) {
    this.#open = open
  }

  /** Undefined before the first use, and after a failure. */
  get current(): Promise<T> | undefined {
    return this.#opened
  }

  get(): Promise<T> {
    this.#opened ??= this.#open().catch((error: unknown) => {
      this.#opened = undefined
      throw error
    })
    return this.#opened
  }
}
