import type { PendingMessageRow, PendingMessageRows } from '../../control-plane/control-plane-store.ts'
import type { PostgresDatabase, Session } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { PostgresRows } from './rows.ts'
import { Table } from './table.ts'
import { encodeText } from './text.ts'

const columns = ['id', 'target', 'owner', 'message', 'created_at']
const positionSql = `SELECT count(*) FROM pending_message
  WHERE target = $1 AND ordinal <= (SELECT ordinal FROM pending_message WHERE id = $2)`

/** PendingMessageRows on PostgreSQL, in order of insertion. */
export class PostgresPendingMessageRows
  extends PostgresRows<PendingMessageRow>
  implements PendingMessageRows
{
  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    super(db, changes, new Table(db, 'pending_message', columns))
  }

  add(row: PendingMessageRow, max: number): Promise<number | undefined> {
    return this.changes.write(async (session) => {
      const existing = await this.table.get(row.id, session)
      if (existing !== undefined) return await count(session, positionSql, [existing.target, existing.id])
      const waiting = 'SELECT count(*) FROM pending_message WHERE target = $1'
      const waitingCount = await count(session, waiting, [row.target])
      if (waitingCount >= max) return undefined
      await this.table.insert(session, row)
      return waitingCount + 1
    })
  }

  list(target: string): Promise<readonly PendingMessageRow[]> {
    return this.table.select('WHERE target = $1 ORDER BY ordinal', [target])
  }
}

async function count(session: Session, sql: string, texts: readonly string[]): Promise<number> {
  return (await session.run<[number]>(sql, texts.map(encodeText))).rows[0]?.[0] ?? 0
}
