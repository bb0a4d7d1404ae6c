import { type Clock, repeat } from '../time/index.ts'

/**
 * A wake-up without content: a woken reader reads the state to learn what changed. To miss no change, take
 * `version`, read, then wait for a newer version.
 */
export class Signal {
  #waiters = new Set<Waiter>()
  #version = 0

  /** Number of notifications. */
  get version(): number {
    return this.#version
  }

  /** Number of waiters. */
  get waiting(): number {
    return this.#waiters.size
  }

  notify(): void {
    this.#version += 1
    const waiters = this.#waiters
    if (waiters.size === 0) return
    this.#waiters = new Set()
    for (const waiter of waiters) waiter.wake()
  }

  /** Resolves when there is a newer version than `version`, or when the waiter's abort signal aborts. */
  async wait(version: number, waiter: Waiter): Promise<void> {
    if (version !== this.#version || waiter.signal.aborted) return
    this.#waiters.add(waiter)
    await waiter.sleep()
    this.#waiters.delete(waiter)
  }

  /** True when there is a newer version than `version`, false after `ms` milliseconds without one. */
  async waitFor(version: number, ms: number, clock: Clock): Promise<boolean> {
    using waiter = new Waiter(new AbortController().signal)
    const timer = clock.schedule(Math.max(0, ms), waiter.wake)
    await this.wait(version, waiter)
    timer.cancel()
    return version !== this.#version
  }
}

/** One reader of signals. Reuse it: an abort listener for each wait would cost more than the wait. */
export class Waiter implements Disposable {
  readonly signal: AbortSignal
  #resolve: (() => void) | undefined

  constructor(signal: AbortSignal) {
    this.signal = signal
    signal.addEventListener('abort', this.wake)
  }

  sleep(): Promise<void> {
    return new Promise((resolve) => {
      this.#resolve = resolve
    })
  }

  readonly wake = (): void => {
    this.#resolve?.()
    this.#resolve = undefined
  };

  [Symbol.dispose](): void {
    this.signal.removeEventListener('abort', this.wake)
  }
}

/** A signal for each key that has waiters. */
export class KeyedSignal {
  readonly #entries = new Map<string, { readonly signal: Signal; users: number }>()

  notify(key: string): void {
    this.#entries.get(key)?.signal.notify()
  }

  /** Number of waiters of all keys. */
  get waiting(): number {
    return this.#entries.values().reduce((sum, { signal }) => sum + signal.waiting, 0)
  }

  /**
   * The first value of `read` that is not undefined. Calls it at once and after each notification of the key.
   * Rejects with the reason of `signal` when that aborts first. `poll`: calls it so often besides.
   */
  async until<T>(
    key: string,
    read: () => Promise<T | undefined>,
    signal: AbortSignal,
    poll?: { readonly clock: Clock; readonly ms: number },
  ): Promise<T> {
    const entry = this.#entries.get(key) ?? { signal: new Signal(), users: 0 }
    this.#entries.set(key, entry)
    entry.users += 1
    using waiter = new Waiter(signal)
    const timer = poll && repeat(poll.clock, poll.ms, waiter.wake)
    try {
      for (;;) {
        signal.throwIfAborted()
        const { version } = entry.signal
        const value = await read()
        if (value !== undefined) return value
        await entry.signal.wait(version, waiter)
      }
    } finally {
      timer?.cancel()
      entry.users -= 1
      if (entry.users === 0) this.#entries.delete(key)
    }
  }
}
