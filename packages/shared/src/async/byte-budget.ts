import type { Clock } from '../time/index.ts'

/** No room in a `ByteBudget` in time, or more than it ever has. */
export class ByteBudgetError extends Error {
  override readonly name = 'ByteBudgetError'
}

export interface ByteBudgetOptions {
  readonly totalBytes: number
  /** Of the leases of one key: one user cannot take everything. */
  readonly bytesPerKey: number
  /** How long a lease waits for room. Leases that wait for each other end this way. */
  readonly maxWaitMs: number
  readonly clock: Clock
}

interface Waiter {
  readonly key: string
  readonly bytes: number
  readonly resolve: () => void
}

/** Bounds the bytes that are in memory at once: in all, and of each key. First come, first served. */
export class ByteBudget {
  readonly #options: ByteBudgetOptions
  readonly #usedByKey = new Map<string, number>()
  readonly #queue = new Set<Waiter>()
  #used = 0

  constructor(options: ByteBudgetOptions) {
    this.#options = options
  }

  get usedBytes(): number {
    return this.#used
  }

  /** Number of waiting calls. */
  get waiting(): number {
    return this.#queue.size
  }

  /** An empty lease. `add` takes bytes, disposal returns all of them. */
  lease(key: string): ByteLease {
    return new ByteLease({
      take: (bytes) => this.#take(key, bytes),
      release: (bytes) => this.#release(key, bytes),
    })
  }

  async #take(key: string, bytes: number): Promise<void> {
    const { totalBytes, bytesPerKey, maxWaitMs, clock } = this.#options
    if (bytes > Math.min(totalBytes, bytesPerKey)) throw new ByteBudgetError('It never fits')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const waiter = { key, bytes, resolve }
    this.#queue.add(waiter)
    this.#grant()
    if (!this.#queue.has(waiter)) return
    const timer = clock.schedule(maxWaitMs, () => {
      this.#queue.delete(waiter)
      reject(new ByteBudgetError('There was no room in time'))
      this.#grant()
    })
    await promise.finally(() => timer.cancel())
  }

  #release(key: string, bytes: number): void {
    this.#change(key, -bytes)
    this.#grant()
  }

  /** In order, except that a key at its own limit does not hold up others. */
  #grant(): void {
    const { totalBytes, bytesPerKey } = this.#options
    const full = new Set<string>()
    for (const waiter of this.#queue) {
      const { key, bytes, resolve } = waiter
      if (full.has(key) || (this.#usedByKey.get(key) ?? 0) + bytes > bytesPerKey) {
        full.add(key)
        continue
      }
      if (this.#used + bytes > totalBytes) return
      this.#queue.delete(waiter)
      this.#change(key, bytes)
      resolve()
    }
  }

  #change(key: string, bytes: number): void {
    this.#used += bytes
    const used = (this.#usedByKey.get(key) ?? 0) + bytes
    if (used === 0) this.#usedByKey.delete(key)
    else this.#usedByKey.set(key, used)
  }
}

/** Bytes of one holder. */
export class ByteLease implements Disposable {
  readonly #budget: { take(bytes: number): Promise<void>; release(bytes: number): void }
  #bytes = 0

  constructor(budget: { take(bytes: number): Promise<void>; release(bytes: number): void }) {
    this.#budget = budget
  }

  /** Resolves when there is room. Rejects with a `ByteBudgetError`; the lease keeps what it has. */
  async add(bytes: number): Promise<void> {
    await this.#budget.take(bytes)
    this.#bytes += bytes
  }

  [Symbol.dispose](): void {
    this.#budget.release(this.#bytes)
    this.#bytes = 0
  }
}
