import type { CommitQueue } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'
import { isDamaged, resultCode } from '../database/storage-failure.ts'

type Outcome<T> = { readonly answer: T } | { readonly error: unknown }

/** A constraint violation: SQLite undoes the statement alone. */
const constraintCode = 19

/**
 * Changes of rows. The changes of one turn of the event loop share a transaction and see
 * each other's writes. A change that throws is rolled back and rejects alone; a failed transaction rejects
 * all.
 */
export class ChangeQueue {
  readonly #db: Database
  readonly #commitQueue: CommitQueue

  constructor(db: Database, commitQueue: CommitQueue) {
    this.#db = db
    this.#commitQueue = commitQueue
  }

  /** Resolves with the result of `work` when its writes are durable. */
  async write<T>(work: () => T): Promise<T> {
    const outcome = await this.#commitQueue.write(() => {
      let outcome: Outcome<T> = { error: new Error('the change was not made') }
      return {
        apply: () => {
          outcome = this.#attempt(work)
        },
        done: () => outcome,
      }
    })
    if ('error' in outcome) throw outcome.error
    return outcome.answer
  }

  /** Writes the queued changes, and rejects later ones. */
  async close(): Promise<void> {
    await this.#commitQueue.close()
  }

  /** `CommitQueue.checkpoint`. */
  checkpoint(): Promise<void> {
    return this.#commitQueue.checkpoint()
  }

  #attempt<T>(work: () => T): Outcome<T> {
    try {
      return { answer: this.#db.savepoint(work) }
    } catch (error) {
      const code = resultCode(error)
      if (code !== undefined && code !== constraintCode && !isDamaged(error)) throw error
      return { error }
    }
  }
}
