import { CommitQueue } from '../database/commit-queue.ts'
import { type Database, resultCode } from '../database/database.ts'

type Outcome<T> = { readonly answer: T } | { readonly error: unknown }

/** A row that may not be there twice: SQLite undoes the statement, and nothing else is wrong. */
const constraintCode = 19

/**
 * Changes of the ledger. Those of one turn of the event loop share a transaction, and each sees what the ones before it wrote.
 * One that throws leaves nothing behind and rejects alone; when the transaction fails all of them reject.
 */
export class ChangeQueue {
  readonly #db: Database
  readonly #commitQueue: CommitQueue

  constructor(db: Database) {
    this.#db = db
    this.#commitQueue = new CommitQueue(db, 'ledger')
  }

  /** Resolves with what `work` answered after its writes are durable. */
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

  /** Writes what waits, and refuses what comes later. */
  close(): void {
    this.#commitQueue.close()
  }

  #attempt<T>(work: () => T): Outcome<T> {
    try {
      return { answer: this.#db.savepoint(work) }
    } catch (error) {
      const code = resultCode(error)
      if (code !== undefined && code !== constraintCode) throw error
      return { error }
    }
  }
}
