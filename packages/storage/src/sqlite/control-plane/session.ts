import type { RowSession, Value, Work } from '../../control-plane/stores/session.ts'
import { type Database, toBuffer } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'

export const titleSearch = { condition: 'instr(folded_title, ?) > 0', toValue: (folded: string) => folded }

/** The rows of control.db. */
export class SqliteSession implements RowSession {
  readonly dialect = { name: 'sqlite', titleSearch } as const
  readonly #db: Database
  readonly #changes: ChangeQueue

  constructor(db: Database, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
  }

  async read<T>(work: Work<T>): Promise<T> {
    return this.#run(work)
  }

  write<T>(makeWork: () => Work<T>): Promise<T> {
    return this.#changes.write(() => this.#run(makeWork()))
  }

  #run<T>(work: Work<T>): T {
    for (let step = work.next([]); ; ) {
      if (step.done) return step.value
      const { sql, values } = step.value
      const rows = this.#db.all<unknown[]>(sql, ...values.map(encodeValue))
      step = work.next(rows.map((row) => row.map(decodeValue)))
    }
  }
}

function encodeValue(value: Value) {
  return typeof value === 'boolean' ? Number(value) : value
}

function decodeValue(value: unknown): unknown {
  return value instanceof Uint8Array ? toBuffer(value) : value
}
