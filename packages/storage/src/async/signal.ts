/** Wakes those who wait for something to look at. A ring carries nothing: read to know. */
export class Signal {
  #waiters = new Set<Waiter>()
  #version = 0

  /** How often it rang. Take it before reading, and wait with it after. */
  get version(): number {
    return this.#version
  }

  notify(): void {
    this.#version += 1
    const waiters = this.#waiters
    if (waiters.size === 0) return
    this.#waiters = new Set()
    for (const waiter of waiters) waiter.wake()
  }

  /** Resolves when it has rung since `rings` was taken, or the sleeper's signal aborts. */
  async wait(version: number, waiter: Waiter): Promise<void> {
    if (version !== this.#version || waiter.signal.aborted) return
    this.#waiters.add(waiter)
    await waiter.sleep()
    if (waiter.signal.aborted) this.#waiters.delete(waiter)
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiters.size
  }
}

/** One who waits at a bell. Made once for each reader, because a listener for each wait would cost more than the wait. */
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
