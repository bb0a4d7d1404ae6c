import { taskConditions, taskListing } from '../listings.ts'
import type { RowChange, RowPage, Scope } from '../rows.ts'
import type {
  AddedTask,
  StartTaskFilter,
  StartTaskQuery,
  StartTaskRow,
  StartTaskRows,
} from '../start-tasks.ts'
import { slots } from './quota.ts'
import { execute, type RowSession, type Work } from './session.ts'
import { TableRows } from './table-rows.ts'

export const unfinishedClause = `INDEXED BY start_task_unfinished WHERE status NOT IN ('READY', 'ERROR')
  ORDER BY created_at, id`
export const removeByConversationSql =
  'DELETE FROM start_task INDEXED BY start_task_conversation WHERE conversation = ?'

export class StartTaskStore extends TableRows<StartTaskRow> implements StartTaskRows {
  constructor(session: RowSession) {
    super(session, 'start_task')
  }

  add(row: StartTaskRow, { dailyLimit = Number.POSITIVE_INFINITY } = {}): Promise<AddedTask> {
    return this.session.write(() => this.#add(row, dailyLimit))
  }

  override update(id: string, members: RowChange<StartTaskRow>): Promise<StartTaskRow | undefined> {
    return this.session.write(() => this.#update(id, members))
  }

  search(scope: Scope, query: StartTaskQuery): Promise<RowPage<StartTaskRow>> {
    return this.session.read(this.table.page(taskListing(scope, query), query))
  }

  count(scope: Scope, filter: StartTaskFilter): Promise<number> {
    const conditions = taskConditions(scope, filter)
    return this.session.read(this.table.count({ index: 'start_task_created', ...conditions }))
  }

  listUnfinished(): Promise<readonly StartTaskRow[]> {
    return this.session.read(this.table.select(unfinishedClause))
  }

  removeByConversation(conversation: string): Promise<void> {
    return this.session.write(() => execute(removeByConversationSql, conversation))
  }

  removeByOwner(owner: string): Promise<void> {
    return this.session.write(() => execute('DELETE FROM start_task WHERE owner = ?', owner))
  }

  *#add(row: StartTaskRow, dailyLimit: number): Work<AddedTask> {
    const { id, owner, quota_day } = row
    const slot = owner === null || quota_day === null ? undefined : ([owner, quota_day] as const)
    const used = slot === undefined ? 0 : yield* slots.count(...slot)
    if (slot !== undefined && used >= dailyLimit) return { isAdded: false, used }
    if (!(yield* this.table.insert(row))) throw new Error(`a start task has the id ${id} already`)
    if (slot === undefined) return { isAdded: true, used }
    yield* slots.take(...slot)
    return { isAdded: true, used: used + 1 }
  }

  *#update(id: string, members: RowChange<StartTaskRow>): Work<StartTaskRow | undefined> {
    const { owner = null, quota_day = null } = (yield* this.table.get(id)) ?? {}
    if (members.quota_day === null && owner !== null && quota_day !== null)
      yield* slots.giveBack(owner, quota_day)
    return yield* this.table.update(id, members)
  }
}
