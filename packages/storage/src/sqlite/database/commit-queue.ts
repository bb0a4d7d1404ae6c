import { Problem } from '@slipway/protocol'
import { CommitMetrics } from './commit-metrics.ts'
import { type Database, isDiskFull, isFatal } from './database.ts'

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

/** Further changes wait for the next transaction, so that reads run in between. */
const maxChangesPerTransaction = 1_000

/**
 * Group commit: changes of one turn of the event loop share a transaction. A plan that throws rejects its own
 * change only; a failure to write or commit rejects the whole group. After an I/O error every write is
 * refused until the next start, because a failed fsync cannot be repeated.
 */
export class CommitQueue {
  readonly metrics = new CommitMetrics()
  readonly #db: Database
  readonly #name: string
  readonly #participants: readonly TransactionParticipant[]
  #queue: Job[] = []
  #isFlushScheduled = false
  /** When the first change of the next transaction was queued. */
  #queuedSinceMs = 0
  #fatalError: unknown

  /** @param name for error messages: `log` or `ledger`. */
  constructor(db: Database, name: string, participants: readonly TransactionParticipant[] = []) {
    this.#db = db
    this.#name = name
    this.#participants = participants
  }

  write<T = void>(plan: () => PlannedChange<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ plan, resolve: resolve as (result: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued; later changes are refused. */
  close(): void {
    while (this.#queue.length > 0) this.#flush()
    this.#fatalError ??= new Problem('unavailable', `The ${this.#name} is closed`)
  }

  #schedule(): void {
    if (this.#isFlushScheduled) return
    this.#isFlushScheduled = true
    this.#queuedSinceMs = performance.now()
    setImmediate(() => {
      this.#isFlushScheduled = false
      this.#flush()
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  #flush(): void {
    const group = this.#queue.splice(0, maxChangesPerTransaction)
    const planned: { readonly job: Job; readonly change: PlannedChange<unknown> }[] = []
    let commitMs = 0
    try {
      if (this.#fatalError !== undefined) throw this.#fatalError
      if (group.length === 0) return
      this.#db.transaction(() => {
        for (const job of group) {
          const change = this.#plan(job)
          if (change === undefined) continue
          planned.push({ job, change })
          change.apply?.()
        }
        for (const participant of this.#participants) participant.beforeCommit?.()
        commitMs = performance.now()
      })
      this.#endTransaction(true)
      this.#recordMetrics(planned.length, commitMs)
    } catch (error) {
      this.#fail(group, error)
      return
    }
    for (const { job, change } of planned) job.resolve(change.done?.())
  }

  #recordMetrics(changes: number, commitMs: number): void {
    const nowMs = performance.now()
    this.metrics.wait.observe((nowMs - this.#queuedSinceMs) / 1000)
    this.metrics.commit.observe((nowMs - commitMs) / 1000)
    this.metrics.changes.observe(changes)
  }

  #plan(job: Job): PlannedChange<unknown> | undefined {
    try {
      return job.plan()
    } catch (error) {
      if (isFatal(error)) throw error
      job.reject(error)
      return undefined
    }
  }

  #fail(group: readonly Job[], cause: unknown): void {
    this.#endTransaction(false)
    const error = toCallerError(cause, this.#name)
    if (isFatal(cause)) this.#fatalError ??= error
    for (const job of group) job.reject(error)
  }

  #endTransaction(isCommitted: boolean): void {
    for (const participant of this.#participants) participant.afterTransaction(isCommitted)
  }
}

/** The error that callers get for a failed transaction. */
function toCallerError(cause: unknown, name: string): unknown {
  if (isDiskFull(cause)) return new Problem('storage_full', 'The disk is full')
  if (!isFatal(cause)) return cause
  const problem = new Problem('unavailable', `The ${name} cannot be written until the server is restarted`)
  problem.cause = cause
  return problem
}
