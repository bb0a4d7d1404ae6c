import type { leafEventIdKey } from '@slipway/protocol'
import { type KindSource, KindSourceNumbers } from '../../event-log/kind-source-numbers.ts'
import type { TransactionParticipant } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'

/** KindSourceNumbers that are rows of a table. */
export class KindSourceIndex implements TransactionParticipant {
  readonly #db: Database
  readonly #numbers = new KindSourceNumbers()
  #hasUncommitted = false

  constructor(db: Database) {
    this.#db = db
    this.#load()
  }

  /** The number of a pair; inserts a new pair in the open transaction. */
  getNumber(kind: string, source: string, key?: unknown): number {
    return this.#numbers.getNumber(kind, source, key, (row) => {
      this.#db.run('INSERT INTO facet (number, kind, source) VALUES (?, ?, ?)', ...row)
      this.#hasUncommitted = true
    })
  }

  afterTransaction(isCommitted: boolean): void {
    if (this.#hasUncommitted && !isCommitted) this.#load()
    this.#hasUncommitted = false
  }

  /** Numbers of the pairs that match the filters; undefined without a filter. */
  matching(
    kind: string | undefined,
    source: string | undefined,
    key?: typeof leafEventIdKey,
  ): readonly number[] | undefined {
    return this.#numbers.matching(kind, source, key)
  }

  #load(): void {
    this.#numbers.load(this.#db.all<KindSource>('SELECT number, kind, source FROM facet'))
  }
}
