import { Problem } from '@slipway/protocol'
import type {
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from '../../control-plane/app-conversations.ts'
import { ownedBy } from '../../control-plane/owned-by.ts'
import type { RowChange, RowPage, Scope } from '../../control-plane/rows.ts'
import { foldCase } from '../../text/case-folding.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { addConditions, type Conditions, timestampListing } from './conditions.ts'
import { SqliteRows } from './rows.ts'
import { type Listing, Table } from './table.ts'

/** Titles are ordered by this many characters of their folded text; a page id contains them. */
const titleKeyLength = 100
export const sandboxClause = `INDEXED BY app_conversation_sandbox WHERE sandbox = ? ORDER BY created_at, id`
export const idsOfOwnerSql =
  'SELECT id FROM app_conversation INDEXED BY app_conversation_created WHERE owner IS ?'
export const countOfOwnerSql =
  'SELECT count(*) FROM app_conversation INDEXED BY app_conversation_created WHERE owner IS ?'
export const childrenClause = `INDEXED BY app_conversation_parent WHERE parent = ? ORDER BY created_at, id`

/** AppConversationRows on SQLite. */
export class SqliteAppConversationRows extends SqliteRows<AppConversationRow> implements AppConversationRows {
  constructor(db: Database, changes: ChangeQueue) {
    super(db, changes, new Table(db, 'app_conversation', { folded_title: 'hidden', title_key: 'hidden' }))
  }

  add(
    row: AppConversationRow,
    { maxOfOwner }: Parameters<AppConversationRows['add']>[1] = {},
  ): ReturnType<AppConversationRows['add']> {
    return this.changes.write(() => {
      const existing = this.table.get(row.id)
      if (existing !== undefined) return { row: existing, created: false }
      if (maxOfOwner !== undefined && this.#countAll(row.owner) >= maxOfOwner)
        throw new Problem(
          'too_many',
          `The limit of ${maxOfOwner} conversations is reached: delete some first`,
        )
      this.table.insert({ ...row, ...titleKeys(row.title) })
      return { row, created: true }
    })
  }

  override update(
    id: string,
    members: RowChange<AppConversationRow>,
  ): Promise<AppConversationRow | undefined> {
    return super.update(id, {
      ...members,
      ...(members.title === undefined ? {} : titleKeys(members.title)),
    })
  }

  async listIds(owner: string): Promise<readonly string[]> {
    return this.db.all<[string]>(idsOfOwnerSql, owner).map(([id]) => id)
  }

  async countAll(owner: string): Promise<number> {
    return this.#countAll(owner)
  }

  async search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversationRow>> {
    return this.table.page(conversationListing(scope, query), query)
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return this.table.count({ index: 'app_conversation_created', ...filterConditions(scope, filter) })
  }

  async listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]> {
    return this.table.select(sandboxClause, sandbox)
  }

  async listChildren(id: string): Promise<readonly AppConversationRow[]> {
    return this.table.select(childrenClause, id)
  }

  #countAll(owner: string | null): number {
    return this.db.get<[number]>(countOfOwnerSql, owner)?.[0] ?? 0
  }
}

/** The rows that a query selects, in its order. */
export function conversationListing(
  scope: Scope,
  { sort_order, ...filter }: Omit<AppConversationQuery, 'limit'>,
): Listing {
  const conditions = filterConditions(scope, filter)
  if (sort_order !== 'TITLE' && sort_order !== 'TITLE_DESC')
    return timestampListing('app_conversation', sort_order, conditions)
  const isDescending = sort_order === 'TITLE_DESC'
  return { ...conditions, index: 'app_conversation_title', by: 'title_key', isDescending }
}

function filterConditions(scope: Scope, filter: AppConversationFilter): Conditions {
  const conditions: Conditions = ownedBy(scope)
  addConditions(conditions, {
    'instr(folded_title, ?) > 0': filter.title__contains ? foldCase(filter.title__contains) : undefined,
    'created_at >= ?': filter.created_at__gte,
    'created_at < ?': filter.created_at__lt,
    'updated_at >= ?': filter.updated_at__gte,
    'updated_at < ?': filter.updated_at__lt,
    'sandbox = ?': filter.sandbox_id__eq,
  })
  if (filter.include_sub_conversations !== true) conditions.where.push('parent IS NULL')
  return conditions
}

/** A missing title is ordered as an empty one. */
function titleKeys(title: string | null) {
  const folded_title = foldCase(title ?? '').toWellFormed()
  return { folded_title, title_key: Array.from(folded_title).slice(0, titleKeyLength).join('') }
}
