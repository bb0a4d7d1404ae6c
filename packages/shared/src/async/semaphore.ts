/** Counting semaphore. Those that wait are served in the order in which they came. */
export class Semaphore {
  readonly #permits: number
  #available: number
  readonly #queue: (() => void)[] = []

  /** @param permits how many may hold it at the same time, at least 1. */
  constructor(permits: number) {
    this.#permits = permits
    this.#available = permits
  }

  /** How many hold it. */
  get active(): number {
    return this.#permits - this.#available
  }

  /** How many wait for it. */
  get waiting(): number {
    return this.#queue.length
  }

  /**
   * Resolves with the function that releases the permit; calling it again does nothing. Rejects with the signal's reason when that
   * aborts first; no permit is held then.
   */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    if (this.#available > 0) this.#available -= 1
    else await this.#enqueue(signal)
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#release()
    }
  }

  /** Does the work while holding a permit. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const release = await this.acquire(signal)
    try {
      return await work()
    } finally {
      release()
    }
  }

  #enqueue(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const onTurn = () => {
      signal?.removeEventListener('abort', onAbort)
      resolve()
    }
    const onAbort = () => {
      this.#queue.splice(this.#queue.indexOf(onTurn), 1)
      reject(signal?.reason)
    }
    signal?.addEventListener('abort', onAbort, { once: true })
    this.#queue.push(onTurn)
    return promise
  }

  /** A permit goes straight to the next in the queue, so that a newcomer cannot overtake it. */
  #release(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#available += 1
    else next()
  }
}
