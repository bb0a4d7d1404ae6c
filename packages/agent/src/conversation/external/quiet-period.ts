import type { Clock } from '@slipway/shared/time'

/** The time of silence that is waited for, and the longest wait. */
interface QuietLimits {
  readonly quietMs: number
  readonly limitMs: number
}

/** Waits until nothing was noted for a while: the end of a series that has no last element. */
export class QuietPeriod {
  readonly #clock: Clock
  readonly #limits: QuietLimits
  #last: number

  constructor(clock: Clock, limits: QuietLimits) {
    this.#clock = clock
    this.#limits = limits
    this.#last = clock.monotonic()
  }

  note(): void {
    this.#last = this.#clock.monotonic()
  }

  /** Rejects when the signal aborts. */
  async wait(signal: AbortSignal): Promise<void> {
    const { quietMs, limitMs } = this.#limits
    const end = this.#clock.monotonic() + limitMs
    for (;;) {
      const left = Math.min(this.#last + quietMs, end) - this.#clock.monotonic()
      if (left <= 0) return
      await this.#clock.sleep(left, { signal })
    }
  }
}
