import { raceAbort } from '@slipway/shared/async'
import type { Clock, Timer } from '@slipway/shared/time'

const timeouts = new WeakMap<AbortSignal, IdleTimeout>()

/** The idle timeout of a request, by its signal. */
export function findIdleTimeout(signal: AbortSignal | null | undefined): IdleTimeout | undefined {
  return signal ? timeouts.get(signal) : undefined
}

/** The signal of one request: aborts with its parent, or after an idle time without `touch`. */
export class IdleTimeout {
  readonly signal: AbortSignal
  isTimedOut = false
  /** The server has begun to answer. */
  hasResponse = false
  /** Edits the body of the request. */
  edit: ((body: string) => string) | undefined
  readonly #controller = new AbortController()
  /** Undefined: no limit. */
  limitMs: number | undefined
  readonly #clock: Clock
  #timer: Timer | undefined

  /** `idleMs` undefined: no limit. */
  constructor(parent: AbortSignal, idleMs: number | undefined, clock: Clock) {
    this.#clock = clock
    this.signal = AbortSignal.any([parent, this.#controller.signal])
    timeouts.set(this.signal, this)
    this.#start(idleMs)
  }

  /** Changes the limit; the idle time begins again when it is another one. */
  limit(idleMs: number | undefined): void {
    if (idleMs !== this.limitMs && !this.signal.aborted) this.#start(idleMs)
  }

  #start(idleMs: number | undefined): void {
    this.#timer?.cancel()
    this.limitMs = idleMs
    if (idleMs === undefined) return
    const onIdle = () => {
      this.isTimedOut = true
      this.stop()
    }
    this.#timer = this.#clock.schedule(idleMs, onIdle)
  }

  touch(): void {
    if (!this.signal.aborted) this.#start(this.limitMs)
  }

  /** Aborts the request if it is still active. Call it after the request. */
  stop(): void {
    this.#timer?.cancel()
    this.#controller.abort()
  }

  /** The result of a promise; undefined as soon as the signal aborts. */
  async race<T>(promise: PromiseLike<T>): Promise<T | undefined> {
    return await raceAbort(Promise.resolve(promise), this.signal).catch((error: unknown) => {
      if (this.signal.aborted) return undefined
      throw error
    })
  }
}
