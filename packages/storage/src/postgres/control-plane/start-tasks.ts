import { taskConditions, taskListing } from '../../control-plane/listings.ts'
import type { RowPage, Scope } from '../../control-plane/rows.ts'
import type {
  StartTaskFilter,
  StartTaskQuery,
  StartTaskRow,
  StartTaskRows,
} from '../../control-plane/start-tasks.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { PostgresRows } from './rows.ts'
import { Table } from './table.ts'
import { encodeText } from './text.ts'

const columns = [
  ...['id', 'owner', 'org', 'status', 'detail', 'conversation', 'sandbox', 'agent_url', 'request'],
  ...['quota_day', 'created_at', 'updated_at'],
]

/** StartTaskRows on PostgreSQL. */
export class PostgresStartTaskRows extends PostgresRows<StartTaskRow> implements StartTaskRows {
  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    super(db, changes, new Table(db, 'start_task', columns))
  }

  add(row: StartTaskRow): Promise<void> {
    return this.changes.write(async (session) => {
      if (!(await this.table.insert(session, row)))
        throw new Error(`a start task has the id ${row.id} already`)
    })
  }

  search(scope: Scope, query: StartTaskQuery): Promise<RowPage<StartTaskRow>> {
    return this.table.page(taskListing(scope, query), query)
  }

  count(scope: Scope, filter: StartTaskFilter): Promise<number> {
    return this.table.count(taskConditions(scope, filter))
  }

  listUnfinished(): Promise<readonly StartTaskRow[]> {
    return this.table.select(`WHERE status NOT IN ('READY', 'ERROR') ORDER BY created_at, id`, [])
  }

  async removeByConversation(conversation: string): Promise<void> {
    const sql = 'DELETE FROM start_task WHERE conversation = $1'
    await this.changes.write((session) => session.run(sql, [encodeText(conversation)]))
  }
}
