import type { PendingMessageRow, PendingMessageRows } from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { SqliteRows } from './rows.ts'
import { Table } from './table.ts'

export const targetClause = 'INDEXED BY pending_message_target WHERE target = ? ORDER BY ordinal'
export const positionSql = `SELECT count(*) FROM pending_message INDEXED BY pending_message_target
  WHERE target = ? AND ordinal <= (SELECT ordinal FROM pending_message WHERE id = ?)`
export const countSql =
  'SELECT count(*) FROM pending_message INDEXED BY pending_message_target WHERE target = ?'

/** PendingMessageRows on SQLite, in order of insertion. */
export class SqlitePendingMessageRows extends SqliteRows<PendingMessageRow> implements PendingMessageRows {
  constructor(db: Database, changes: ChangeQueue) {
    super(db, changes, new Table(db, 'pending_message', { ordinal: 'hidden' }))
  }

  add(row: PendingMessageRow, max: number): Promise<number | undefined> {
    return this.changes.write(() => {
      const existing = this.table.get(row.id)
      if (existing !== undefined) return this.#count(positionSql, existing.target, existing.id)
      const count = this.#count(countSql, row.target)
      if (count >= max) return undefined
      this.table.insert(row)
      return count + 1
    })
  }

  async list(target: string): Promise<readonly PendingMessageRow[]> {
    return this.table.select(targetClause, target)
  }

  #count(sql: string, ...values: string[]): number {
    return this.db.get<[number]>(sql, ...values)?.[0] ?? 0
  }
}
