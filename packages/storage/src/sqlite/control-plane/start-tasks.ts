import { taskConditions, taskListing } from '../../control-plane/listings.ts'
import type { RowChange, RowPage, Scope } from '../../control-plane/rows.ts'
import type {
  AddedTask,
  StartTaskFilter,
  StartTaskQuery,
  StartTaskRow,
  StartTaskRows,
} from '../../control-plane/start-tasks.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import type { SqliteQuotaRows } from './quota.ts'
import { SqliteRows } from './rows.ts'
import { Table } from './table.ts'

export const unfinishedClause = `INDEXED BY start_task_unfinished WHERE status NOT IN ('READY', 'ERROR')
  ORDER BY created_at, id`
export const removeByConversationSql =
  'DELETE FROM start_task INDEXED BY start_task_conversation WHERE conversation = ?'

/** StartTaskRows on SQLite. */
export class SqliteStartTaskRows extends SqliteRows<StartTaskRow> implements StartTaskRows {
  readonly #quota: SqliteQuotaRows

  constructor(db: Database, changes: ChangeQueue, quota: SqliteQuotaRows) {
    super(db, changes, new Table(db, 'start_task'))
    this.#quota = quota
  }

  add(row: StartTaskRow, { dailyLimit = Number.POSITIVE_INFINITY } = {}): Promise<AddedTask> {
    return this.changes.write(() => {
      const { id, owner, quota_day } = row
      const slot = owner === null || quota_day === null ? undefined : ([owner, quota_day] as const)
      const used = slot === undefined ? 0 : this.#quota.used(...slot)
      if (slot !== undefined && used >= dailyLimit) return { isAdded: false, used }
      if (!this.table.insert(row)) throw new Error(`a start task has the id ${id} already`)
      if (slot === undefined) return { isAdded: true, used }
      this.#quota.take(...slot)
      return { isAdded: true, used: used + 1 }
    })
  }

  override update(id: string, members: RowChange<StartTaskRow>): Promise<StartTaskRow | undefined> {
    return this.changes.write(() => {
      const { owner, quota_day } = this.table.get(id) ?? { owner: null, quota_day: null }
      if (members.quota_day === null && owner !== null && quota_day !== null)
        this.#quota.giveBack(owner, quota_day)
      return this.table.update(id, members)
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
