import { setTimeout as sleep } from 'node:timers/promises'
import { maxTimerMs } from './max-timer.ts'

export interface TimerOptions {
  /** With `false` the timer does not keep the process alive; true unless given. */
  readonly ref?: boolean | undefined
}

export interface SleepOptions extends TimerOptions {
  readonly signal?: AbortSignal | undefined
}

/** A scheduled call. */
export interface Timer {
  /** Has no effect after the call. */
  cancel(): void
}

/**
 * Time, passed in: code that waits, or compares moments, takes a clock instead of the timers of Node, so that
 * a test or a simulation decides when time passes. In production it is `systemClock`, in tests `FakeClock`.
 */
export interface Clock {
  /** Milliseconds since 1970; it may go back. */
  now(): number
  /** Milliseconds since some moment; it never goes back. For durations. */
  monotonic(): number
  /** Calls `run` once after `ms`; a wait beyond 24.8 days ends there. */
  schedule(ms: number, run: () => void, options?: TimerOptions): Timer
  /** Resolves after `ms`; rejects with an `AbortError` when the signal aborts first. */
  sleep(ms: number, options?: SleepOptions): Promise<void>
  /** A signal that aborts with a `TimeoutError` after `ms`; it does not keep the process alive. */
  timeout(ms: number): AbortSignal
}

/** The clock of the machine. */
export const systemClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(ms, run, { ref = true } = {}) {
    const timer = setTimeout(run, Math.min(ms, maxTimerMs))
    if (!ref) timer.unref()
    return { cancel: () => clearTimeout(timer) }
  },
  async sleep(ms, options) {
    await sleep(Math.min(ms, maxTimerMs), undefined, options)
  },
  timeout: (ms) => AbortSignal.timeout(Math.min(Math.ceil(ms), maxTimerMs)),
}

/** Calls `run` each `ms` until it is cancelled; it does not keep the process alive. */
export function repeat(clock: Clock, ms: number, run: () => void): Timer {
  const next = (): Timer =>
    clock.schedule(
      ms,
      () => {
        timer = next()
        run()
      },
      { ref: false },
    )
  let timer = next()
  return { cancel: () => timer.cancel() }
}
