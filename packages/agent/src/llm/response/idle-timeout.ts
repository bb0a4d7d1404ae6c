/** A timer takes no more. */
const maxTimerMs = 2 ** 31 - 1

/**
 * The signal of one request: aborted with its parent, or when nothing has touched it for a time. Stop it when the request
 * is over.
 */
export class IdleTimeout {
  readonly #controller = new AbortController()
  readonly #parent: AbortSignal
  readonly #timer: NodeJS.Timeout | undefined
  #isTimedOut = false

  /** `idleMs` undefined: no limit. */
  constructor(parent: AbortSignal, idleMs: number | undefined) {
    this.#parent = parent
    parent.addEventListener('abort', this.#abort, { once: true })
    if (parent.aborted) this.#abort()
    if (idleMs === undefined) return
    this.#timer = setTimeout(
      () => {
        this.#isTimedOut = true
        this.#abort()
      },
      Math.min(idleMs, maxTimerMs),
    )
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  /** Whether it was time that aborted it. */
  get isTimedOut(): boolean {
    return this.#isTimedOut
  }

  readonly touch = (): void => {
    if (!this.signal.aborted) this.#timer?.refresh()
  }

  /** Lets go of the parent, and of the request if that still goes on. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#parent.removeEventListener('abort', this.#abort)
    this.#abort()
  }

  /** What a promise comes to; undefined as soon as the signal is aborted. */
  async race<T>(promise: PromiseLike<T>): Promise<T | undefined> {
    const { signal } = this
    let abort = () => {}
    const aborted = new Promise<undefined>((done) => {
      abort = () => done(undefined)
      signal.addEventListener('abort', abort, { once: true })
      if (signal.aborted) abort()
    })
    // Nobody waits for a promise that lost: its rejection is no news.
    Promise.resolve(promise).catch(() => {})
    try {
      return await Promise.race([promise, aborted])
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  readonly #abort = (): void => {
    clearTimeout(this.#timer)
    this.#controller.abort()
  }
}
