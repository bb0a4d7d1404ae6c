import { isTerminated } from '@slipway/shared/process'
import { type Clock, systemClock } from '@slipway/shared/time'
import type { Reply } from './core/handler.ts'

/** Balancers that ask less often are not waited for. */
const askedWithinMs = 60_000

/**
 * The order of a stop. A balancer learns from `/ready` that a server ends, and only at its next question: a
 * port that closes first is a 502 for everything that is sent until then. So after SIGTERM `/ready` is 503
 * while the port stays open and requests are served; their connections close with their answers. There is no
 * wait when `/ready` was not asked lately, and never after Ctrl-C.
 */
export class Readiness {
  readonly #drainMs: number
  readonly #clock: Clock
  #askedAt: number | undefined
  #isDraining = false

  constructor({
    drainMs,
    clock = systemClock,
  }: { readonly drainMs: number; readonly clock?: Clock | undefined }) {
    this.#drainMs = drainMs
    this.#clock = clock
  }

  get isDraining(): boolean {
    return this.#isDraining
  }

  /** The answer to `/ready`: that of the server, unless it ends. */
  async answer(reply: () => Reply | Promise<Reply>): Promise<Reply> {
    this.#askedAt = this.#clock.monotonic()
    if (!this.#isDraining) return await reply()
    return { status: 503, json: { status: 'stopping', message: 'The server is stopping.' } }
  }

  /** Resolves when the port may be closed after `signal` has aborted. */
  async drain(signal: AbortSignal): Promise<void> {
    const isAsked = this.#askedAt !== undefined && this.#clock.monotonic() - this.#askedAt <= askedWithinMs
    this.#isDraining = true
    if (isAsked && isTerminated(signal)) await this.#clock.sleep(this.#drainMs)
  }
}
