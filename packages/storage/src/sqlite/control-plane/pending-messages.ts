import type { PendingMessageRow, PendingMessageRows } from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { Table } from './table.ts'

export const targetClause = 'INDEXED BY pending_message_target WHERE target = ? ORDER BY ordinal'
export const positionSql = `SELECT count(*) FROM pending_message INDEXED BY pending_message_target
  WHERE target = ? AND ordinal <= (SELECT ordinal FROM pending_message WHERE id = ?)`
export const countSql =
  'SELECT count(*) FROM pending_message INDEXED BY pending_message_target WHERE target = ?'

/** PendingMessageRows on SQLite. They keep the order in which they came, also when their target changes. */
export class SqlitePendingMessageRows implements PendingMessageRows {
  readonly #db: Database
  readonly #changes: ChangeQueue
  readonly #table: Table<PendingMessageRow>

  constructor(db: Database, changes: ChangeQueue) {
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
      const existing = this.#table.get(row.id)
      if (existing !== undefined) return this.#count(positionSql, existing.target, existing.id)
      const count = this.#count(countSql, row.target)
      if (count >= max) return undefined
      this.#table.insert(row)
      return count + 1
    })
  }

  async list(target: string): Promise<readonly PendingMessageRow[]> {
    return this.#table.select(targetClause, target)
  }

  remove(id: string): Promise<void> {
    return this.#changes.write(() => {
      this.#table.remove(id)
    })
  }

  #count(sql: string, ...values: string[]): number {
    return this.#db.get<[number]>(sql, ...values)?.[0] ?? 0
  }
}
