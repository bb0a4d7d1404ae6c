/**
 * Group commit: many changes share one transaction and one sync of the disk.
 *
 * Problem: each append has to be durable before it is acknowledged, and a sync takes milliseconds. SQLite has
 * one writer, and a change is decided by what the log is at that moment.
 *
 * Idea: a change is a plan, which decides, and an `apply`, which writes. Changes wait in a queue. A
 * transaction plans and applies them one after another, so that each plan sees the changes before it, and
 * commits them all.
 *
 * Invariants:
 * - Plans run in the order of the calls, each right before its `apply`, in the transaction. So no decision is
 *   older than what it is written behind.
 * - A plan has no effect but its result. One that throws rejects its own change; a failure of `apply` or of
 *   the commit rejects the group, because the transaction is one.
 * - A change is acknowledged after the commit (`settle`), when it is on the disk.
 * - Memory follows the file by the participants: deferred writes before the commit, and everything is read
 *   again after a rollback (`#endTransaction`).
 * - A damaged page rejects the changes that need it: the group is repeated one by one (`#flushEach`), and
 *   changes that were refused are not planned again.
 * - A lock of another process is waited for while nothing has begun, in order and for a limited time
 *   (`#mayWait`). The event loop does not wait.
 * - After a failure of the disk nothing is tried until `health` says so: a failed sync leaves pages that a
 *   later sync would not write.
 *
 * If you change this: an acknowledged event that a crash loses, or two events at one position. The crash and
 * fault tests of `storage/src/sqlite` kill the process and fail calls of the disk.
 */

import { Problem } from '@slipway/protocol'
import { CommitMetrics } from '../../event-log/commit-metrics.ts'
import type { Database } from './database.ts'
import { isDamaged, isLocked, isStorageFailure } from './storage-failure.ts'
import type { DatabaseHealth } from './storage-health.ts'

/** `apply` writes the change in the transaction; `done` runs after the commit and returns the result. */
export interface PlannedChange<T> {
  apply?(): void
  done?(): T
}

interface Job {
  plan(): PlannedChange<unknown>
  resolve(result: unknown): void
  reject(error: unknown): void
}

/** State in memory that follows the transactions of the file. */
export interface TransactionParticipant {
  /** Writes deferred changes. */
  beforeCommit?(): void
  /** After a rollback, memory must match the file again. */
  afterTransaction(isCommitted: boolean): void
}

/** How long changes wait while another process holds the lock of the database. */
const maxLockedMs = 5_000
const lockedRetryMs = 25
/** Until the next try of a checkpoint that a reader held up; twice as long each time. */
const minCheckpointRetryMs = 500
const maxCheckpointRetryMs = 60_000
/** Further changes wait for the next transaction, so that reads run in between. */
const maxChangesPerTransaction = 1_000

/**
 * Group commit: changes that come while a group is synced share the next transaction, at least those of one
 * turn of the event loop. A slow disk is not on the event loop, and what is not synced yet is seen by the
 * plans of later groups alone. A plan that throws rejects its own change only, as does a page that is
 * damaged; a failure to write, commit or sync rejects the whole group. After a failure of the disk changes
 * are refused until `health` has made the database usable again. A lock of another process is waited for,
 * asynchronously.
 */
export class CommitQueue {
  readonly metrics = new CommitMetrics()
  readonly #db: Database
  readonly #name: string
  readonly #health: DatabaseHealth
  readonly #participants: readonly TransactionParticipant[]
  #queue: Job[] = []
  #isScheduled = false
  #running: Promise<void> | undefined
  /** Who waits for a checkpoint that gives the space of the write-ahead log back. */
  #wantingCheckpoint: (() => void)[] = []
  /** The next try of a wanted checkpoint that a reader held up. */
  #nextCheckpoint: NodeJS.Timeout | undefined
  #checkpointRetryMs = minCheckpointRetryMs
  /** When the first change of the next transaction was queued. */
  #queuedSinceMs = 0
  /** Since when changes wait for a lock of another process. */
  #lockedSinceMs: number | undefined
  #isClosed = false

  /** @param name for error messages: `log` or `ledger`. */
  constructor(
    db: Database,
    name: string,
    health: DatabaseHealth,
    participants: readonly TransactionParticipant[] = [],
  ) {
    this.#db = db
    this.#name = name
    this.#health = health
    this.#participants = participants
  }

  write<T = void>(plan: () => PlannedChange<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      if (this.#isClosed) throw new Problem('unavailable', `The ${this.#name} is closed`)
      if (this.#queue.length === 0) this.#queuedSinceMs = performance.now()
      this.#queue.push({ plan, resolve: resolve as (result: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued; later changes are refused. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#nextCheckpoint)
    while (this.#running !== undefined || this.#queue.length > 0) await (this.#running ?? this.#start())
    for (const resolve of this.#wantingCheckpoint.splice(0)) resolve()
  }

  /**
   * Moves the write-ahead log into the database soon, and gives the space of both back. Resolves afterwards,
   * also when that has failed. What a reader holds up is tried again until it is done.
   */
  checkpoint(): Promise<void> {
    return new Promise((resolve) => {
      if (this.#isClosed) return resolve()
      this.#wantingCheckpoint.push(resolve)
      this.#schedule()
    })
  }

  /** The file was opened again: memory follows it. */
  reload(): void {
    this.#endTransaction(false)
  }

  #schedule(): void {
    if (this.#isScheduled || this.#running !== undefined) return
    this.#isScheduled = true
    setImmediate(() => this.#runScheduled())
  }

  #runScheduled(): void {
    this.#isScheduled = false
    if (this.#running === undefined && !this.#isClosed) void this.#start()
  }

  /** One group, and the checkpoint that is due after it. */
  #start(): Promise<void> {
    this.#running = this.#run().finally(() => {
      this.#running = undefined
      const isIdle = this.#queue.length === 0 && this.#wantingCheckpoint.length === 0
      if (isIdle || this.#isClosed) return
      if (this.#lockedSinceMs === undefined) {
        this.#schedule()
        return
      }
      this.#isScheduled = true
      setTimeout(() => this.#runScheduled(), lockedRetryMs)
    })
    return this.#running
  }

  async #run(): Promise<void> {
    const group = this.#queue.splice(0, maxChangesPerTransaction)
    const queuedSinceMs = this.#queuedSinceMs
    if (group.length > 0) await this.#flush(group, queuedSinceMs)
    const wanting = this.#wantingCheckpoint.splice(0)
    if (!this.#isClosed && this.#health.problem === undefined) await this.#checkpoint(wanting.length > 0)
    for (const resolve of wanting) resolve()
  }

  async #checkpoint(isWanted: boolean): Promise<void> {
    try {
      if (!isWanted && !this.#db.isCheckpointDue()) return
      const isWhole = await this.#db.checkpointInThread(isWanted)
      if (isWhole) this.#checkpointRetryMs = minCheckpointRetryMs
      else if (isWanted) this.#checkpointLater()
    } catch (error) {
      if (isLocked(error)) {
        if (isWanted) this.#checkpointLater()
        return
      }
      this.#health.failed(error, 0)
      if (!isStorageFailure(error)) this.#checkpointHere(error)
    }
  }

  /** The file shrinks at a checkpoint alone, and on an idle server the next one may be far away. */
  #checkpointLater(): void {
    if (this.#isClosed) return
    clearTimeout(this.#nextCheckpoint)
    this.#nextCheckpoint = setTimeout(() => void this.checkpoint(), this.#checkpointRetryMs).unref()
    this.#checkpointRetryMs = Math.min(this.#checkpointRetryMs * 2, maxCheckpointRetryMs)
  }

  /** Without a thread the event loop waits for the disk, and the write-ahead log does not grow for ever. */
  #checkpointHere(cause: unknown): void {
    this.#health.warn('a checkpoint runs in the event loop: its thread failed', cause)
    try {
      this.#db.checkpointPassively()
    } catch (error) {
      this.#health.failed(error, 0)
    }
  }

  async #flush(group: readonly Job[], queuedSinceMs: number): Promise<void> {
    const planned: { readonly job: Job; readonly change: PlannedChange<unknown> }[] = []
    const refused = new Set<Job>()
    let commitMs = 0
    let hasBegun = false
    try {
      this.#health.assertUsable()
      await this.#db.commitGroup(() => {
        hasBegun = true
        for (const job of group) {
          const change = this.#plan(job)
          if (change === undefined) {
            refused.add(job)
            continue
          }
          planned.push({ job, change })
          change.apply?.()
        }
        for (const participant of this.#participants) participant.beforeCommit?.()
        commitMs = performance.now()
      })
      this.#lockedSinceMs = undefined
      this.#health.succeeded()
      this.#endTransaction(true)
      this.#recordMetrics(planned.length, queuedSinceMs, commitMs)
    } catch (error) {
      const left = group.filter((job) => !refused.has(job))
      if (!hasBegun && isLocked(error) && this.#mayWait()) this.#queue.unshift(...left)
      else if (isDamaged(error) && left.length > 1) await this.#flushEach(left, queuedSinceMs)
      else this.#fail(left, error)
      return
    }
    for (const { job, change } of planned) settle(job, change)
  }

  /** One by one, so that a change of a damaged page takes no others with it. */
  async #flushEach(group: readonly Job[], queuedSinceMs: number): Promise<void> {
    this.#endTransaction(false)
    for (const [index, job] of group.entries()) {
      await this.#flush([job], queuedSinceMs)
      if (this.#lockedSinceMs === undefined) continue
      // It waits at the front of the queue: so do those after it.
      this.#queue.splice(1, 0, ...group.slice(index + 1))
      return
    }
  }

  /** Whether changes wait for a lock of another process. */
  #mayWait(): boolean {
    if (this.#isClosed || this.#health.problem !== undefined) return false
    this.#lockedSinceMs ??= performance.now()
    return performance.now() - this.#lockedSinceMs < maxLockedMs
  }

  #recordMetrics(changes: number, queuedSinceMs: number, commitMs: number): void {
    const nowMs = performance.now()
    this.metrics.wait.observe((nowMs - queuedSinceMs) / 1000)
    this.metrics.commit.observe((nowMs - commitMs) / 1000)
    this.metrics.changes.observe(changes)
  }

  #plan(job: Job): PlannedChange<unknown> | undefined {
    try {
      return job.plan()
    } catch (error) {
      if (isStorageFailure(error) && !isDamaged(error)) throw error
      job.reject(error)
      return undefined
    }
  }

  #fail(group: readonly Job[], error: unknown): void {
    this.#lockedSinceMs = undefined
    this.#endTransaction(false)
    this.#health.failed(error, group.length)
    for (const job of group) job.reject(error)
  }

  #endTransaction(isCommitted: boolean): void {
    for (const participant of this.#participants) participant.afterTransaction(isCommitted)
  }
}

/** What fails after the commit is the answer of one change alone. */
function settle(job: Job, change: PlannedChange<unknown>): void {
  try {
    job.resolve(change.done?.())
  } catch (error) {
    job.reject(error)
  }
}
