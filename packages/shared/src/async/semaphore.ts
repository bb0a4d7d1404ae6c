/** Counting semaphore, first come, first served. */
export class Semaphore {
  readonly #permits: number
  #available: number
  readonly #queue: (() => void)[] = []

  /** @param permits maximum number of holders, at least 1. */
  constructor(permits: number) {
    this.#permits = permits
    this.#available = permits
  }

  /** Number of holders. */
  get active(): number {
    return this.#permits - this.#available
  }

  /** Number of waiting calls. */
  get waiting(): number {
    return this.#queue.length
  }

  /**
   * Resolves with a function that releases the permit; further calls of it do nothing. Rejects with the
   * signal's reason when that aborts first.
   */
  async acquire(signal?: AbortSignal): Promise<() => void> {
    signal?.throwIfAborted()
    if (this.#available > 0) this.#available -= 1
    else await this.#enqueue(signal)
    return this.#once()
  }

  /** Like `acquire`, but undefined at once when no permit is free. */
  tryAcquire(): (() => void) | undefined {
    if (this.#available === 0) return undefined
    this.#available -= 1
    return this.#once()
  }

  /** Runs the work while holding a permit. */
  async run<T>(work: () => Promise<T>, signal?: AbortSignal): Promise<T> {
    const release = await this.acquire(signal)
    try {
      return await work()
    } finally {
      release()
    }
  }

  /** Releases the permit at the first call. */
  #once(): () => void {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      this.#release()
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

  /** Passes the permit to the next in the queue, so that a new call cannot overtake it. */
  #release(): void {
    const next = this.#queue.shift()
    if (next === undefined) this.#available += 1
    else next()
  }
}
