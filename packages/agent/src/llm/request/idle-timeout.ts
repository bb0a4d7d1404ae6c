import { raceAbort } from '@slipway/shared/async'
import { maxTimerMs } from '@slipway/shared/time'

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
  readonly #controller = new AbortController()
  /** Undefined: no limit. */
  limitMs: number | undefined
  #timer: NodeJS.Timeout | undefined

  /** `idleMs` undefined: no limit. */
  constructor(parent: AbortSignal, idleMs: number | undefined) {
    this.signal = AbortSignal.any([parent, this.#controller.signal])
    timeouts.set(this.signal, this)
    this.#start(idleMs)
  }

  /** Changes the limit; the idle time begins again when it is another one. */
  limit(idleMs: number | undefined): void {
    if (idleMs !== this.limitMs && !this.signal.aborted) this.#start(idleMs)
  }

  #start(idleMs: number | undefined): void {
    clearTimeout(this.#timer)
    this.limitMs = idleMs
    if (idleMs === undefined) return
    const onIdle = () => {
      this.isTimedOut = true
      this.stop()
    }
    this.#timer = setTimeout(onIdle, Math.min(idleMs, maxTimerMs))
  }

  touch(): void {
    if (!this.signal.aborted) this.#timer?.refresh()
  }

  /** Aborts the request if it is still active. Call it after the request. */
  stop(): void {
    clearTimeout(this.#timer)
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
