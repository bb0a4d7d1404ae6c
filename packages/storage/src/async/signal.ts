/** Wakes those who wait for something to look at. A ring carries nothing: read to know. */
export class Bell {
  #waiting = new Set<Sleeper>()
  #rings = 0

  /** How often it rang. Take it before reading, and wait with it after. */
  get rings(): number {
    return this.#rings
  }

  ring(): void {
    this.#rings += 1
    const waiting = this.#waiting
    if (waiting.size === 0) return
    this.#waiting = new Set()
    for (const sleeper of waiting) sleeper.wake()
  }

  /** Resolves when it has rung since `rings` was taken, or the sleeper's signal aborts. */
  async since(rings: number, sleeper: Sleeper): Promise<void> {
    if (rings !== this.#rings || sleeper.signal.aborted) return
    this.#waiting.add(sleeper)
    await sleeper.sleep()
    if (sleeper.signal.aborted) this.#waiting.delete(sleeper)
  }

  /** How many wait. */
  get waiting(): number {
    return this.#waiting.size
  }
}

/** One who waits at a bell. Made once for each reader, because a listener for each wait would cost more than the wait. */
export class Sleeper implements Disposable {
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
