import type {
  AppConversationFilter,
  AppConversationRow,
  AppConversationRows,
  PageQuery,
  RowPage,
  RowSort,
  Scope,
} from '../../control-plane/control-plane-store.ts'
import { ownedBy } from '../../control-plane/owned-by.ts'
import { foldCase } from '../../text/case-folding.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { addCondition, type Conditions, listingByMoment } from './conditions.ts'
import { type Listing, Table } from './table.ts'

type Query = PageQuery & AppConversationFilter & { readonly sort_order: RowSort | 'TITLE' | 'TITLE_DESC' }

/** A row as it is stored. */
interface StoredRow extends AppConversationRow {
  readonly folded_title: string
  readonly title_key: string
}

/** Titles are ordered by so many characters of their folded text; a page id holds them. */
const titleKeyLength = 100
export const sandboxClause = `INDEXED BY app_conversation_sandbox WHERE sandbox = ? ORDER BY created_at, id`
export const childrenClause = `INDEXED BY app_conversation_parent WHERE parent = ? ORDER BY created_at, id`

/** AppConversationRows on SQLite. */
export class SqliteAppConversationRows implements AppConversationRows {
  readonly #changes: ChangeQueue
  readonly #table: Table<StoredRow>

  constructor(db: Database, changes: ChangeQueue) {
    this.#changes = changes
    this.#table = new Table<StoredRow>(db, 'app_conversation', {
      id: 'plain',
      owner: 'plain',
      org: 'plain',
      sandbox: 'plain',
      parent: 'plain',
      title: 'plain',
      folded_title: 'plain',
      title_key: 'plain',
      status: 'plain',
      members: 'plain',
      created_at: 'plain',
      updated_at: 'plain',
    })
  }

  add(row: AppConversationRow): ReturnType<AppConversationRows['add']> {
    return this.#changes.write(() => {
      const existing = this.#table.get(row.id)
      if (existing !== undefined) return { row: toRow(existing), created: false }
      this.#table.insert({ ...row, ...titleKeys(row.title) })
      return { row, created: true }
    })
  }

  async get(ids: readonly string[]): Promise<(AppConversationRow | undefined)[]> {
    return this.#table.getMany(ids).map((stored) => stored && toRow(stored))
  }

  update(
    id: string,
    members: Parameters<AppConversationRows['update']>[1],
  ): Promise<AppConversationRow | undefined> {
    const keys = members.title === undefined ? {} : titleKeys(members.title)
    return this.#changes.write(() => {
      const stored = this.#table.update(id, { ...members, ...keys })
      return stored && toRow(stored)
    })
  }

  async search(scope: Scope, query: Query): Promise<RowPage<AppConversationRow>> {
    const { items, next_page_id } = this.#table.page(conversationListing(scope, query), query)
    return { items: items.map(toRow), next_page_id }
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return this.#table.count({ index: 'app_conversation_created', ...filterConditions(scope, filter) })
  }

  async listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]> {
    return this.#table.select(sandboxClause, sandbox).map(toRow)
  }

  async listChildren(id: string): Promise<readonly AppConversationRow[]> {
    return this.#table.select(childrenClause, id).map(toRow)
  }

  remove(id: string): Promise<boolean> {
    return this.#changes.write(() => this.#table.remove(id))
  }
}

/** The rows that a query selects, in its order. */
export function conversationListing(scope: Scope, { sort_order, ...filter }: Query): Listing<StoredRow> {
  const conditions = filterConditions(scope, filter)
  if (sort_order !== 'TITLE' && sort_order !== 'TITLE_DESC')
    return listingByMoment('app_conversation', sort_order, conditions)
  const isDescending = sort_order === 'TITLE_DESC'
  return { ...conditions, index: 'app_conversation_title', by: 'title_key', isDescending }
}

function filterConditions(scope: Scope, filter: AppConversationFilter): Conditions {
  const conditions: Conditions = ownedBy(scope)
  // A parameter that is empty is as if it were not there.
  const needle = filter.title__contains ? foldCase(filter.title__contains) : undefined
  addCondition(conditions, 'instr(folded_title, ?) > 0', needle)
  addCondition(conditions, 'created_at >= ?', filter.created_at__gte)
  addCondition(conditions, 'created_at < ?', filter.created_at__lt)
  addCondition(conditions, 'updated_at >= ?', filter.updated_at__gte)
  addCondition(conditions, 'updated_at < ?', filter.updated_at__lt)
  addCondition(conditions, 'sandbox = ?', filter.sandbox_id__eq)
  if (filter.include_sub_conversations !== true) conditions.where.push('parent IS NULL')
  return conditions
}

/** Conversations without a title are in order as if it were empty. */
function titleKeys(title: string | null): Pick<StoredRow, 'folded_title' | 'title_key'> {
  const folded_title = foldCase(title ?? '').toWellFormed()
  return { folded_title, title_key: Array.from(folded_title).slice(0, titleKeyLength).join('') }
}

function toRow({ folded_title: _folded, title_key: _key, ...row }: StoredRow): AppConversationRow {
  return row
}
