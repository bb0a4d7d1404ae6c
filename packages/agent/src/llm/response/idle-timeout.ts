import { raceAbort } from '@slipway/shared/async'

/** The longest time that a timer supports. */
const maxTimerMs = 2 ** 31 - 1

/** The signal of one request: aborts with its parent, or after an idle time without `touch`. */
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

  /** The idle time has aborted it. */
  get isTimedOut(): boolean {
    return this.#isTimedOut
  }

  readonly touch = (): void => {
    if (!this.signal.aborted) this.#timer?.refresh()
  }

  /** Stops listening to the parent and aborts the request if it is still active. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#parent.removeEventListener('abort', this.#abort)
    this.#abort()
  }

  /** The result of a promise; undefined as soon as the signal aborts. */
  async race<T>(promise: PromiseLike<T>): Promise<T | undefined> {
    const { signal } = this
    return await raceAbort(Promise.resolve(promise), signal).catch((error: unknown) => {
      if (signal.aborted) return undefined
      throw error
    })
  }

  readonly #abort = (): void => {
    clearTimeout(this.#timer)
    this.#controller.abort()
  }
}
