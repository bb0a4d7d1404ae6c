import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Clock, SleepOptions, Timer } from '../clock.ts'

interface FakeTimer {
  readonly ms: number
  readonly dueMs: number
  readonly run: () => void
}

/**
 * A clock that stands still until a test advances it. Timers run in the order in which they are due, those of
 * one moment in the order in which they were scheduled. A wait of 0 ms is over on its own.
 */
export class FakeClock implements Clock {
  readonly #startMs: number
  readonly #timers = new Set<FakeTimer>()
  #elapsedMs = 0

  constructor(startMs = Date.UTC(2026, 0, 1)) {
    this.#startMs = startMs
  }

  now(): number {
    return this.#startMs + this.#elapsedMs
  }

  monotonic(): number {
    return this.#elapsedMs
  }

  schedule(ms: number, run: () => void): Timer {
    const timer = { ms, dueMs: this.#elapsedMs + Math.max(0, ms), run }
    this.#timers.add(timer)
    if (ms <= 0)
      setImmediate(() => {
        if (this.#timers.delete(timer)) run()
      })
    return { cancel: () => void this.#timers.delete(timer) }
  }

  async sleep(ms: number, { signal }: SleepOptions = {}): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const abort = () => reject(new DOMException('The operation was aborted', 'AbortError'))
    if (signal?.aborted) abort()
    signal?.addEventListener('abort', abort)
    const timer = this.schedule(ms, resolve)
    try {
      await promise
    } finally {
      timer.cancel()
      signal?.removeEventListener('abort', abort)
    }
  }

  timeout(ms: number): AbortSignal {
    const controller = new AbortController()
    this.schedule(ms, () => controller.abort(new DOMException('The operation timed out', 'TimeoutError')))
    return controller.signal
  }

  /** The waits of the timers that have not run, shortest first. */
  get waits(): readonly number[] {
    return [...this.#timers].map(({ ms }) => ms).toSorted((one, other) => one - other)
  }

  /** Lets `ms` pass: runs what is due, and after each timer the promises that it has settled. */
  async advance(ms: number): Promise<void> {
    const endMs = this.#elapsedMs + ms
    await nextTurn()
    for (let next = this.#next(endMs); next !== undefined; next = this.#next(endMs)) {
      this.#timers.delete(next)
      this.#elapsedMs = Math.max(this.#elapsedMs, next.dueMs)
      next.run()
      await nextTurn()
    }
    this.#elapsedMs = endMs
  }

  /** Resolves when somebody waits for exactly `ms`: what happens before it takes real time. */
  async untilWaiting(ms: number): Promise<void> {
    while (!this.waits.includes(ms)) await nextTurn()
  }

  #next(endMs: number): FakeTimer | undefined {
    let first: FakeTimer | undefined
    for (const timer of this.#timers) {
      if (timer.dueMs <= endMs && (first === undefined || timer.dueMs < first.dueMs)) first = timer
    }
    return first
  }
}
