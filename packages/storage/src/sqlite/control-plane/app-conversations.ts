import type {
  AppConversationFilter,
  AppConversationRow,
  AppConversationRows,
  PageQuery,
  RowPage,
  RowSort,
  Scope,
} from '../../control-plane/control-plane-store.ts'
import { fold } from '../../text/case-folding.ts'
import type { Database } from '../database/database.ts'
import type { Changes } from './change-queue.ts'
import { byMoment, type Conditions, inScope, narrow } from './conditions.ts'
import { type Listing, Table } from './table.ts'

type Query = PageQuery & AppConversationFilter & { readonly sort_order: RowSort | 'TITLE' | 'TITLE_DESC' }

/** A row as it is stored. */
interface Stored extends AppConversationRow {
  readonly folded_title: string
  readonly title_key: string
}

/** Titles are ordered by so many characters of their folded text; a page id holds them. */
const keyCharacters = 100
export const sandboxTail = `INDEXED BY app_conversation_sandbox WHERE sandbox = ? ORDER BY created_at, id`
export const childrenTail = `INDEXED BY app_conversation_parent WHERE parent = ? ORDER BY created_at, id`

/** AppConversationRows on SQLite. */
export class SqliteAppConversationRows implements AppConversationRows {
  readonly #changes: Changes
  readonly #table: Table<Stored>

  constructor(db: Database, changes: Changes) {
    this.#changes = changes
    this.#table = new Table<Stored>(db, 'app_conversation', {
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
      const known = this.#table.get(row.id)
      if (known !== undefined) return { row: rowOf(known), created: false }
      this.#table.insert({ ...row, ...keysOf(row.title) })
      return { row, created: true }
    })
  }

  async get(ids: readonly string[]): Promise<(AppConversationRow | undefined)[]> {
    return this.#table.several(ids).map((stored) => stored && rowOf(stored))
  }

  change(
    id: string,
    members: Parameters<AppConversationRows['change']>[1],
  ): Promise<AppConversationRow | undefined> {
    const keys = members.title === undefined ? {} : keysOf(members.title)
    return this.#changes.write(() => {
      const stored = this.#table.update(id, { ...members, ...keys })
      return stored && rowOf(stored)
    })
  }

  async search(scope: Scope, query: Query): Promise<RowPage<AppConversationRow>> {
    const { items, next_page_id } = this.#table.page(listingOf(scope, query), query)
    return { items: items.map(rowOf), next_page_id }
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return this.#table.count({ index: 'app_conversation_created', ...matching(scope, filter) })
  }

  async inSandbox(sandbox: string): Promise<readonly AppConversationRow[]> {
    return this.#table.rows(sandboxTail, sandbox).map(rowOf)
  }

  async children(id: string): Promise<readonly AppConversationRow[]> {
    return this.#table.rows(childrenTail, id).map(rowOf)
  }

  remove(id: string): Promise<boolean> {
    return this.#changes.write(() => this.#table.remove(id))
  }
}

/** The rows that a query selects, in its order. */
export function listingOf(scope: Scope, { sort_order, ...filter }: Query): Listing<Stored> {
  const conditions = matching(scope, filter)
  if (sort_order !== 'TITLE' && sort_order !== 'TITLE_DESC')
    return byMoment('app_conversation', sort_order, conditions)
  const isDescending = sort_order === 'TITLE_DESC'
  return { ...conditions, index: 'app_conversation_title', by: 'title_key', isDescending }
}

function matching(scope: Scope, filter: AppConversationFilter): Conditions {
  const conditions = inScope(scope)
  // A parameter that is empty is as if it were not there.
  const needle = filter.title__contains ? fold(filter.title__contains) : undefined
  narrow(conditions, 'instr(folded_title, ?) > 0', needle)
  narrow(conditions, 'created_at >= ?', filter.created_at__gte)
  narrow(conditions, 'created_at < ?', filter.created_at__lt)
  narrow(conditions, 'updated_at >= ?', filter.updated_at__gte)
  narrow(conditions, 'updated_at < ?', filter.updated_at__lt)
  narrow(conditions, 'sandbox = ?', filter.sandbox_id__eq)
  if (filter.include_sub_conversations !== true) conditions.where.push('parent IS NULL')
  return conditions
}

/** Conversations without a title are in order as if it were empty. */
function keysOf(title: string | null): Pick<Stored, 'folded_title' | 'title_key'> {
  const folded_title = fold(title ?? '').toWellFormed()
  return { folded_title, title_key: Array.from(folded_title).slice(0, keyCharacters).join('') }
}

function rowOf({ folded_title: _folded, title_key: _key, ...row }: Stored): AppConversationRow {
  return row
}
