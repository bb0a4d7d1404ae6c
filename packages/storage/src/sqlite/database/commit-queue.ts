import { Problem } from '@slipway/protocol'
import { CommitMetrics } from './commit-metrics.ts'
import { type Database, isFatal, resultCode } from './database.ts'

/** One change, planned: `apply` writes it, `done` runs after the commit and gives the answer. */
export interface PlannedChange<T> {
  apply(): void
  done(): T
}

interface Job {
  plan(): PlannedChange<unknown>
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** What memory holds of the file, and what follows its transactions. */
export interface TransactionParticipant {
  /** Writes what was put off, before the commit. */
  beforeCommit?(): void
  /** The transaction has ended; when it was not saved, memory goes back to what the file has. */
  afterTransaction(isCommitted: boolean): void
}

/** More than this waits for the next transaction, so that reading goes on in between. */
const maxChangesPerTransaction = 1_000

/**
 * Changes of one turn of the event loop share one transaction. A plan reads and may refuse by throwing, which rejects
 * that change alone; what fails while writing or committing rejects the whole group. After a failure that leaves the file
 * in doubt nothing is written any more: an fsync that failed cannot be repeated.
 */
export class CommitQueue {
  readonly metrics = new CommitMetrics()
  readonly #db: Database
  readonly #name: string
  readonly #participants: readonly TransactionParticipant[]
  #queue: Job[] = []
  #isFlushScheduled = false
  /** When the first change that waits was queued. */
  #queuedSinceMs = 0
  #fatalError: unknown

  /** `name` is what a caller is told of: the log, the ledger. */
  constructor(db: Database, name: string, participants: readonly TransactionParticipant[] = []) {
    this.#db = db
    this.#name = name
    this.#participants = participants
  }

  write<T>(plan: () => PlannedChange<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ plan, resolve: resolve as (answer: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued at once; later changes are refused. */
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
    const planned: { job: Job; step: PlannedChange<unknown> }[] = []
    let commitMs = 0
    try {
      if (this.#fatalError !== undefined) throw this.#fatalError
      if (group.length === 0) return
      this.#db.transaction(() => {
        for (const job of group) {
          const change = this.#plan(job)
          if (change === undefined) continue
          planned.push({ job, step: change })
          change.apply()
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
    for (const { job, step: change } of planned) job.resolve(change.done())
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

const diskFullCode = 13

/** What a caller is told of a transaction that failed. */
function toCallerError(cause: unknown, name: string): unknown {
  if (resultCode(cause) === diskFullCode) return new Problem('storage_full', 'The disk is full')
  if (!isFatal(cause)) return cause
  const problem = new Problem('unavailable', `The ${name} cannot be written until the server is restarted`)
  problem.cause = cause
  return problem
}
