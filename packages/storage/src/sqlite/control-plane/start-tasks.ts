import type { Instant } from '@slipway/protocol'
import type {
  PageQuery,
  RowPage,
  RowSort,
  Scope,
  StartTaskRow,
  StartTaskRows,
} from '../../control-plane/control-plane-store.ts'
import { ownedBy } from '../../control-plane/owned-by.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { addCondition, type Conditions, listingByMoment } from './conditions.ts'
import { type Listing, Table } from './table.ts'

interface Filter {
  readonly conversation_id__eq?: string | undefined
  readonly created_at__gte?: Instant | undefined
}

export const unfinishedClause = `INDEXED BY start_task_unfinished WHERE status NOT IN ('READY', 'ERROR')
  ORDER BY created_at, id`
export const removeByConversationSql =
  'DELETE FROM start_task INDEXED BY start_task_conversation WHERE conversation = ?'

/** StartTaskRows on SQLite. */
export class SqliteStartTaskRows implements StartTaskRows {
  readonly #db: Database
  readonly #changes: ChangeQueue
  readonly #table: Table<StartTaskRow>

  constructor(db: Database, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
    this.#table = new Table<StartTaskRow>(db, 'start_task', {
      id: 'plain',
      owner: 'plain',
      status: 'plain',
      detail: 'plain',
      conversation: 'plain',
      sandbox: 'plain',
      agent_url: 'plain',
      request: 'plain',
      quota_day: 'plain',
      created_at: 'plain',
      updated_at: 'plain',
    })
  }

  add(row: StartTaskRow): Promise<void> {
    return this.#changes.write(() => {
      if (!this.#table.insert(row)) throw new Error(`a start task has the id ${row.id} already`)
    })
  }

  async get(ids: readonly string[]): Promise<(StartTaskRow | undefined)[]> {
    return this.#table.getMany(ids)
  }

  update(
    id: string,
    members: Partial<Omit<StartTaskRow, 'id' | 'created_at'>>,
  ): Promise<StartTaskRow | undefined> {
    return this.#changes.write(() => this.#table.update(id, members))
  }

  async search(
    scope: Scope,
    query: PageQuery & Filter & { readonly sort_order: RowSort },
  ): Promise<RowPage<StartTaskRow>> {
    return this.#table.page(taskListing(scope, query), query)
  }

  async count(scope: Scope, filter: Filter): Promise<number> {
    return this.#table.count({ index: 'start_task_created', ...filterConditions(scope, filter) })
  }

  async listUnfinished(): Promise<readonly StartTaskRow[]> {
    return this.#table.select(unfinishedClause)
  }

  removeByConversation(conversation: string): Promise<void> {
    return this.#changes.write(() => this.#db.run(removeByConversationSql, conversation))
  }
}

/** The rows that a query selects, in its order. */
export function taskListing(
  scope: Scope,
  { sort_order, ...filter }: Filter & { readonly sort_order: RowSort },
): Listing<StartTaskRow> {
  return listingByMoment('start_task', sort_order, filterConditions(scope, filter))
}

function filterConditions({ owner }: Scope, { conversation_id__eq, created_at__gte }: Filter): Conditions {
  const conditions: Conditions = ownedBy({ owner })
  addCondition(conditions, 'conversation = ?', conversation_id__eq)
  addCondition(conditions, 'created_at >= ?', created_at__gte)
  return conditions
}
