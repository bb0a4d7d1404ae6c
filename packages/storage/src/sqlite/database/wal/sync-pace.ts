/** A sync on the event loop may hold it for this time: a large group of changes takes as long to plan. */
const maxFastMs = 10
const fastInARow = 32

/**
 * Whether a disk syncs so fast that the event loop may wait for it.
 *
 * A sync in another thread costs a commit two changes of threads, a snapshot for the reads meanwhile, and a
 * second look at the log: 0.2 ms of the 0.4 ms that a single append takes on a fast disk. On a slow disk that
 * is nothing, and a sync on the event loop stops all requests. So commits are synced on the event loop while
 * the disk is known to be fast, and off it otherwise.
 *
 * Invariant: a sync on the event loop follows `fastInARow` syncs in a row that took less than `maxFastMs`, on
 * either thread; one that is slower or fails begins that row again. A disk counts as fast until a sync says
 * otherwise: the first commit of a write-ahead log is synced by SQLite anyway, and so is what a start writes.
 * So a disk that becomes slow stops the event loop once, for one sync, and one that is slow now and then at
 * most once in `fastInARow` + 1 syncs. Both ways have the same effect, and each group takes one of them from
 * its begin to its end. See docs/decisions/0047-syncs-off-the-event-loop.md.
 */
export class SyncPace {
  readonly #now: () => number
  #fast = fastInARow

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  get isFast(): boolean {
    return this.#fast >= fastInARow
  }

  /**
   * Returns what is to be called when it has ended, and returns its time in ms; one that fails never ends.
   */
  beginSync(): () => number {
    const fast = this.#fast
    const startMs = this.#now()
    this.#fast = 0
    return () => {
      const ms = this.#now() - startMs
      if (ms < maxFastMs) this.#fast = fast + 1
      return ms
    }
  }

  /** The next syncs are off the event loop: files were opened again after a failure. */
  reset(): void {
    this.#fast = 0
  }
}
