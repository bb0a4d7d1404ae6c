const maxTimerMs = 2 ** 31 - 1

/** What waits for confirmation, and since when. */
interface ConfirmationWait {
  /** The moment (ms) since when it waits. */
  readonly since: number
  readonly limitMs: number
}

/** Says no when nobody answers in time. One wait at a time; the process does not stay up for it. */
export class ConfirmationDeadline {
  /** Milliseconds. */
  readonly #now: () => number
  readonly #expire: (reason: string) => void
  #timer: NodeJS.Timeout | undefined

  constructor(now: () => number, expire: (reason: string) => void) {
    this.#now = now
    this.#expire = expire
  }

  /** Waits for this one from now on, and for none when it is undefined. A moment in the future counts as now. */
  schedule(waiting: ConfirmationWait | undefined): void {
    clearTimeout(this.#timer)
    if (waiting === undefined) return
    const { since, limitMs } = waiting
    const now = this.#now()
    const wait = Math.max(0, Math.min(since, now) + limitMs - now)
    this.#timer = setTimeout(
      () => {
        if (wait > maxTimerMs) this.schedule(waiting)
        else this.#expire(`Nobody confirmed the action within ${limitMs / 1000} seconds.`)
      },
      Math.min(wait, maxTimerMs),
    ).unref()
  }
}
