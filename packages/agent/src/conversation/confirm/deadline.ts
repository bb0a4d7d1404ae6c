import { maxTimerMs } from '@slipway/shared/time'

interface ConfirmationWait {
  /** When it began, in milliseconds. */
  readonly since: number
  readonly limitMs: number
}

/** Rejects pending actions after a time limit. Its timer does not keep the process alive. */
export class ConfirmationDeadline {
  /** Milliseconds. */
  readonly #now: () => number
  readonly #expire: (reason: string) => void
  #timer: NodeJS.Timeout | undefined

  constructor(now: () => number, expire: (reason: string) => void) {
    this.#now = now
    this.#expire = expire
  }

  get isScheduled(): boolean {
    return this.#timer !== undefined
  }

  /** Replaces the current wait, by none when undefined. A start in the future counts as now. */
  schedule(waiting: ConfirmationWait | undefined): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    if (waiting === undefined) return
    const { since, limitMs } = waiting
    const now = this.#now()
    const wait = Math.max(0, Math.min(since, now) + limitMs - now)
    this.#timer = setTimeout(
      () => {
        if (wait > maxTimerMs) this.schedule(waiting)
        else this.#expire(`The action was not confirmed within ${limitMs / 1000} seconds.`)
      },
      Math.min(wait, maxTimerMs),
    ).unref()
  }
}
