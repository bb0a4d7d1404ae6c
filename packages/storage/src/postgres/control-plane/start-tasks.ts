import { taskConditions, taskListing } from '../../control-plane/listings.ts'
import type { RowChange, RowPage, Scope } from '../../control-plane/rows.ts'
import type {
  AddedTask,
  StartTaskFilter,
  StartTaskQuery,
  StartTaskRow,
  StartTaskRows,
} from '../../control-plane/start-tasks.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import type { PostgresQuotaRows } from './quota.ts'
import { PostgresRows } from './rows.ts'
import { Table } from './table.ts'
import { encodeText } from './text.ts'

const columns = [
  ...['id', 'owner', 'org', 'status', 'detail', 'conversation', 'sandbox', 'agent_url', 'request'],
  ...['quota_day', 'created_at', 'updated_at'],
]

/** StartTaskRows on PostgreSQL. */
export class PostgresStartTaskRows extends PostgresRows<StartTaskRow> implements StartTaskRows {
  readonly #quota: PostgresQuotaRows

  constructor(db: PostgresDatabase, changes: ChangeQueue, quota: PostgresQuotaRows) {
    super(db, changes, new Table(db, 'start_task', columns))
    this.#quota = quota
  }

  add(row: StartTaskRow, { dailyLimit = Number.POSITIVE_INFINITY } = {}): Promise<AddedTask> {
    return this.changes.write(async (session) => {
      const { id, owner, quota_day } = row
      const slot = owner === null || quota_day === null ? undefined : ([session, owner, quota_day] as const)
      const used = slot === undefined ? 0 : await this.#quota.used(...slot)
      if (slot !== undefined && used >= dailyLimit) return { isAdded: false, used }
      if (!(await this.table.insert(session, row))) throw new Error(`a start task has the id ${id} already`)
      if (slot === undefined) return { isAdded: true, used }
      await this.#quota.take(...slot)
      return { isAdded: true, used: used + 1 }
    })
  }

  override update(id: string, members: RowChange<StartTaskRow>): Promise<StartTaskRow | undefined> {
    return this.changes.write(async (session) => {
      const { owner, quota_day } = (await this.table.get(id, session)) ?? { owner: null, quota_day: null }
      if (members.quota_day === null && owner !== null && quota_day !== null)
        await this.#quota.giveBack(session, owner, quota_day)
      return await this.table.update(session, id, members)
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
