import type { PendingMessageRow, PendingMessageRows } from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'
import type { Changes } from './change-queue.ts'
import { Table } from './table.ts'

export const targetTail = 'INDEXED BY pending_message_target WHERE target = ? ORDER BY ordinal'
export const placeSql = `SELECT count(*) FROM pending_message INDEXED BY pending_message_target
  WHERE target = ? AND ordinal <= (SELECT ordinal FROM pending_message WHERE id = ?)`
export const waitingSql =
  'SELECT count(*) FROM pending_message INDEXED BY pending_message_target WHERE target = ?'
export const moveSql =
  'UPDATE pending_message INDEXED BY pending_message_target SET target = ? WHERE target = ?'

/** PendingMessageRows on SQLite. They keep the order in which they came, also when their target changes. */
export class SqlitePendingMessageRows implements PendingMessageRows {
  readonly #db: Database
  readonly #changes: Changes
  readonly #table: Table<PendingMessageRow>

  constructor(db: Database, changes: Changes) {
    this.#db = db
    this.#changes = changes
    this.#table = new Table<PendingMessageRow>(db, 'pending_message', {
      id: 'plain',
      target: 'plain',
      owner: 'plain',
      message: 'plain',
      created_at: 'plain',
    })
  }

  add(row: PendingMessageRow, max: number): Promise<number | undefined> {
    return this.#changes.write(() => {
      const known = this.#table.get(row.id)
      if (known !== undefined) return this.#count(placeSql, known.target, known.id)
      const waiting = this.#count(waitingSql, row.target)
      if (waiting >= max) return undefined
      this.#table.insert(row)
      return waiting + 1
    })
  }

  async of(target: string): Promise<readonly PendingMessageRow[]> {
    return this.#table.rows(targetTail, target)
  }

  remove(id: string): Promise<void> {
    return this.#changes.write(() => {
      this.#table.remove(id)
    })
  }

  move(from: string, to: string): Promise<void> {
    return this.#changes.write(() => this.#db.run(moveSql, to, from))
  }

  #count(sql: string, ...values: string[]): number {
    return this.#db.row<[number]>(sql, ...values)?.[0] ?? 0
  }
}
