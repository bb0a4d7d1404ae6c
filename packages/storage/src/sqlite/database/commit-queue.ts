import { Problem } from '@slipway/protocol'
import { WriterNumbers } from './commit-metrics.ts'
import { type Database, isFatal, resultCode } from './database.ts'

/** One change, planned: `apply` writes it, `done` runs after the commit and gives the answer. */
export interface Step<T> {
  apply(): void
  done(): T
}

interface Job {
  plan(): Step<unknown>
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** What memory holds of the file, and what follows its transactions. */
export interface Memory {
  /** Writes what was put off, before the commit. */
  save?(): void
  /** The transaction has ended; when it was not saved, memory goes back to what the file has. */
  settle(isSaved: boolean): void
}

/** More than this waits for the next transaction, so that reading goes on in between. */
const maxGroup = 1_000

/**
 * Changes of one turn of the event loop share one transaction. A plan reads and may refuse by throwing, which rejects
 * that change alone; what fails while writing or committing rejects the whole group. After a failure that leaves the file
 * in doubt nothing is written any more: an fsync that failed cannot be repeated.
 */
export class Writer {
  readonly numbers = new WriterNumbers()
  readonly #db: Database
  readonly #name: string
  readonly #memories: readonly Memory[]
  #queue: Job[] = []
  #isScheduled = false
  /** When the first change that waits was queued. */
  #sinceMs = 0
  #refusal: unknown

  /** `name` is what a caller is told of: the log, the ledger. */
  constructor(db: Database, name: string, memories: readonly Memory[] = []) {
    this.#db = db
    this.#name = name
    this.#memories = memories
  }

  write<T>(plan: () => Step<T>): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      this.#queue.push({ plan, resolve: resolve as (answer: unknown) => void, reject })
      this.#schedule()
    })
  }

  /** Writes what is queued at once; later changes are refused. */
  close(): void {
    while (this.#queue.length > 0) this.#flush()
    this.#refusal ??= new Problem('unavailable', `The ${this.#name} is closed`)
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    this.#sinceMs = performance.now()
    setImmediate(() => {
      this.#isScheduled = false
      this.#flush()
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  #flush(): void {
    const group = this.#queue.splice(0, maxGroup)
    const planned: { job: Job; step: Step<unknown> }[] = []
    let commitMs = 0
    try {
      if (this.#refusal !== undefined) throw this.#refusal
      if (group.length === 0) return
      this.#db.transaction(() => {
        for (const job of group) {
          const step = this.#plan(job)
          if (step === undefined) continue
          planned.push({ job, step })
          step.apply()
        }
        for (const memory of this.#memories) memory.save?.()
        commitMs = performance.now()
      })
      this.#settle(true)
      this.#count(planned.length, commitMs)
    } catch (error) {
      this.#fail(group, error)
      return
    }
    for (const { job, step } of planned) job.resolve(step.done())
  }

  #count(changes: number, commitMs: number): void {
    const nowMs = performance.now()
    this.numbers.wait.add((nowMs - this.#sinceMs) / 1000)
    this.numbers.commit.add((nowMs - commitMs) / 1000)
    this.numbers.changes.add(changes)
  }

  #plan(job: Job): Step<unknown> | undefined {
    try {
      return job.plan()
    } catch (error) {
      if (isFatal(error)) throw error
      job.reject(error)
      return undefined
    }
  }

  #fail(group: readonly Job[], cause: unknown): void {
    this.#settle(false)
    const error = faultOf(cause, this.#name)
    if (isFatal(cause)) this.#refusal ??= error
    for (const job of group) job.reject(error)
  }

  #settle(isSaved: boolean): void {
    for (const memory of this.#memories) memory.settle(isSaved)
  }
}

const full = 13

/** What a caller is told of a transaction that failed. */
function faultOf(cause: unknown, name: string): unknown {
  if (resultCode(cause) === full) return new Problem('storage_full', 'The disk is full')
  if (!isFatal(cause)) return cause
  const problem = new Problem('unavailable', `The ${name} cannot be written until the server is restarted`)
  problem.cause = cause
  return problem
}
