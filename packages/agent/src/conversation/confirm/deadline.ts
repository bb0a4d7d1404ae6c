import { deadlineReason } from '@slipway/protocol'
import { type Clock, maxTimerMs, type Timer } from '@slipway/shared/time'

interface ConfirmationWait {
  /** When it began, in milliseconds. */
  readonly since: number
  readonly limitMs: number
}

/** Rejects pending actions after a time limit. Its timer does not keep the process alive. */
export class ConfirmationDeadline {
  readonly #clock: Clock
  readonly #expire: (reason: string) => void
  #timer: Timer | undefined

  constructor(clock: Clock, expire: (reason: string) => void) {
    this.#clock = clock
    this.#expire = expire
  }

  get isScheduled(): boolean {
    return this.#timer !== undefined
  }

  /** Replaces the current wait, by none when undefined. A start in the future counts as now. */
  schedule(waiting: ConfirmationWait | undefined): void {
    this.#timer?.cancel()
    this.#timer = undefined
    if (waiting === undefined) return
    const { since, limitMs } = waiting
    const now = this.#clock.now()
    const wait = Math.max(0, Math.min(since, now) + limitMs - now)
    this.#timer = this.#clock.schedule(
      Math.min(wait, maxTimerMs),
      () => {
        if (wait > maxTimerMs) this.schedule(waiting)
        else this.#expire(deadlineReason(limitMs / 1000))
      },
      { ref: false },
    )
  }
}
