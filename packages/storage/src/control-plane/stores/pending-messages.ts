import type { PendingMessageRow, PendingMessageRows } from '../control-plane-store.ts'
import { queryColumn, queryNumber, type RowSession, type Work } from './session.ts'
import { TableRows } from './table-rows.ts'

export const targetClause = 'INDEXED BY pending_message_target WHERE target = ? ORDER BY ordinal'
export const positionSql = `SELECT count(*) FROM pending_message INDEXED BY pending_message_target
  WHERE target = ? AND ordinal <= (SELECT ordinal FROM pending_message WHERE id = ?)`
export const countSql =
  'SELECT count(*) FROM pending_message INDEXED BY pending_message_target WHERE target = ?'

/** PendingMessageRows in order of insertion. */
export class PendingMessageStore extends TableRows<PendingMessageRow> implements PendingMessageRows {
  constructor(session: RowSession) {
    super(session, 'pending_message')
  }

  add(row: PendingMessageRow, max: number): Promise<number | undefined> {
    return this.session.write(() => this.#add(row, max))
  }

  list(target: string): Promise<readonly PendingMessageRow[]> {
    return this.session.read(this.table.select(targetClause, target))
  }

  listIds(owner: string): Promise<readonly string[]> {
    return this.session.read(queryColumn<string>('SELECT id FROM pending_message WHERE owner = ?', owner))
  }

  *#add(row: PendingMessageRow, max: number): Work<number | undefined> {
    const existing = yield* this.table.get(row.id)
    if (existing !== undefined) return yield* queryNumber(positionSql, existing.target, existing.id)
    const count = yield* queryNumber(countSql, row.target)
    if (count >= max) return undefined
    yield* this.table.insert(row)
    return count + 1
  }
}
