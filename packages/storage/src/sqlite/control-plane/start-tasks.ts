import { taskConditions, taskListing } from '../../control-plane/listings.ts'
import type { RowPage, Scope } from '../../control-plane/rows.ts'
import type {
  StartTaskFilter,
  StartTaskQuery,
  StartTaskRow,
  StartTaskRows,
} from '../../control-plane/start-tasks.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { SqliteRows } from './rows.ts'
import { Table } from './table.ts'

export const unfinishedClause = `INDEXED BY start_task_unfinished WHERE status NOT IN ('READY', 'ERROR')
  ORDER BY created_at, id`
export const removeByConversationSql =
  'DELETE FROM start_task INDEXED BY start_task_conversation WHERE conversation = ?'

/** StartTaskRows on SQLite. */
export class SqliteStartTaskRows extends SqliteRows<StartTaskRow> implements StartTaskRows {
  constructor(db: Database, changes: ChangeQueue) {
    super(db, changes, new Table(db, 'start_task'))
  }

  add(row: StartTaskRow): Promise<void> {
    return this.changes.write(() => {
      if (!this.table.insert(row)) throw new Error(`a start task has the id ${row.id} already`)
    })
  }

  async search(scope: Scope, query: StartTaskQuery): Promise<RowPage<StartTaskRow>> {
    return this.table.page(taskListing(scope, query), query)
  }

  async count(scope: Scope, filter: StartTaskFilter): Promise<number> {
    return this.table.count({ index: 'start_task_created', ...taskConditions(scope, filter) })
  }

  async listUnfinished(): Promise<readonly StartTaskRow[]> {
    return this.table.select(unfinishedClause)
  }

  removeByConversation(conversation: string): Promise<void> {
    return this.changes.write(() => this.db.run(removeByConversationSql, conversation))
  }
}
