import { Problem } from '@slipway/protocol'
import { type Database, isFatal, resultCode } from './database.ts'
import type { Facets } from './facets.ts'
import type { Heads } from './heads.ts'

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

/** More than this waits for the next transaction, so that reading goes on in between. */
const maxGroup = 1_000

/**
 * Changes of one turn of the event loop share one transaction. A plan reads and may refuse by throwing, which rejects
 * that change alone; what fails while writing or committing rejects the whole group. After a failure that leaves the file
 * in doubt nothing is written any more: an fsync that failed cannot be repeated.
 */
export class Writer {
  readonly #db: Database
  readonly #heads: Heads
  readonly #facets: Facets
  #queue: Job[] = []
  #isScheduled = false
  #refusal: unknown

  constructor(db: Database, heads: Heads, facets: Facets) {
    this.#db = db
    this.#heads = heads
    this.#facets = facets
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
    this.#refusal ??= new Problem('unavailable', 'The log is closed')
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#flush()
      if (this.#queue.length > 0) this.#schedule()
    })
  }

  #flush(): void {
    const group = this.#queue.splice(0, maxGroup)
    const planned: { job: Job; step: Step<unknown> }[] = []
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
        this.#heads.save()
      })
      this.#facets.settle(true)
    } catch (error) {
      this.#fail(group, error)
      return
    }
    for (const { job, step } of planned) job.resolve(step.done())
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
    this.#heads.clear()
    this.#facets.settle(false)
    const error = faultOf(cause)
    if (isFatal(cause)) this.#refusal ??= error
    for (const job of group) job.reject(error)
  }
}

const full = 13

/** What a caller is told of a transaction that failed. */
function faultOf(cause: unknown): unknown {
  if (resultCode(cause) === full) return new Problem('storage_full', 'The disk is full')
  if (!isFatal(cause)) return cause
  const problem = new Problem('unavailable', 'The log cannot be written until the server is restarted')
  problem.cause = cause
  return problem
}
