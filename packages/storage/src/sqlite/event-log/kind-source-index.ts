import type { leafEventIdKey } from '@slipway/protocol'
import { type KindSource, KindSourceNumbers } from '../../event-log/kind-source-numbers.ts'
import type { TransactionParticipant } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'

/** KindSourceNumbers that are rows of a table. */
export class KindSourceIndex implements TransactionParticipant {
  readonly #db: Database
  readonly #numbers = new KindSourceNumbers()
  /** Memory may have numbers that were rolled back, or lack those of a refused commit that is stored. */
  #isStale = true

  constructor(db: Database) {
    this.#db = db
    this.#load()
  }

  /** The number of a pair; inserts a new pair in the open transaction. */
  getNumber(kind: string, source: string, key?: unknown): number {
    this.#load()
    return this.#numbers.getNumber(kind, source, key, (row) => {
      this.#db.run('INSERT INTO facet (number, kind, source) VALUES (?, ?, ?)', ...row)
    })
  }

  afterTransaction(isCommitted: boolean): void {
    this.#isStale ||= !isCommitted
  }

  /** Numbers of the pairs that match the filters; undefined without a filter. */
  matching(
    kind: string | undefined,
    source: string | undefined,
    key?: typeof leafEventIdKey,
  ): readonly number[] | undefined {
    this.#load()
    return this.#numbers.matching(kind, source, key)
  }

  /** Throws a Problem while the table cannot be read. */
  #load(): void {
    if (!this.#isStale) return
    this.#numbers.load(this.#db.all<KindSource>('SELECT number, kind, source FROM facet'))
    this.#isStale = false
  }
}
