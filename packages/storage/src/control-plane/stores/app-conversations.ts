import { type Instant, Problem } from '@slipway/protocol'
import type {
  AllConversationsQuery,
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from '../app-conversations.ts'
import {
  allConversationsListing,
  conversationConditions,
  conversationListing,
  titleKeys,
} from '../listings.ts'
import { ownedBy } from '../owned-by.ts'
import type { RowChange, RowPage, Scope } from '../rows.ts'
import { queryColumn, type RowSession, type Work } from './session.ts'
import { TableRows } from './table-rows.ts'
import { addUsage } from './usage.ts'

const createdIndex = 'app_conversation_created'
export const sandboxClause = `INDEXED BY app_conversation_sandbox WHERE sandbox = ? ORDER BY created_at, id`
export const idsOfOwnerSql = `SELECT id FROM app_conversation INDEXED BY ${createdIndex} WHERE owner = ? ORDER BY created_at, id`
export const childrenClause = `INDEXED BY app_conversation_parent WHERE parent = ? ORDER BY created_at, id`

export class AppConversationStore extends TableRows<AppConversationRow> implements AppConversationRows {
  readonly #now: () => Instant

  constructor(session: RowSession, now: () => Instant) {
    super(session, 'app_conversation')
    this.#now = now
  }

  add(
    row: AppConversationRow,
    { maxOfOwner }: Parameters<AppConversationRows['add']>[1] = {},
  ): ReturnType<AppConversationRows['add']> {
    return this.session.write(() => this.#add(row, maxOfOwner))
  }

  override update(
    id: string,
    members: RowChange<AppConversationRow>,
  ): Promise<AppConversationRow | undefined> {
    const keys = members.title === undefined ? {} : this.#titleColumns(members.title)
    return this.session.write(() => this.#update(id, { ...members, ...keys }))
  }

  listIds(owner: string): Promise<readonly string[]> {
    return this.session.read(queryColumn<string>(idsOfOwnerSql, owner))
  }

  countAll(owner: string): Promise<number> {
    return this.session.read(this.#countAll(owner))
  }

  search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversationRow>> {
    const listing = conversationListing(scope, query, this.session.dialect.titleSearch)
    return this.session.read(this.table.page(listing, query))
  }

  searchAll(query: AllConversationsQuery): Promise<RowPage<AppConversationRow>> {
    const listing = allConversationsListing(query, this.session.dialect.titleSearch)
    return this.session.read(this.table.page(listing, query))
  }

  count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    const conditions = conversationConditions(scope, filter, this.session.dialect.titleSearch)
    return this.session.read(this.table.count({ index: createdIndex, ...conditions }))
  }

  listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]> {
    return this.session.read(this.table.select(sandboxClause, sandbox))
  }

  listChildren(id: string): Promise<readonly AppConversationRow[]> {
    return this.session.read(this.table.select(childrenClause, id))
  }

  *#update(id: string, members: RowChange<AppConversationRow>): Work<AppConversationRow | undefined> {
    const row = members.members === undefined ? undefined : yield* this.table.get(id)
    if (row === undefined || members.members === undefined || members.members === row.members)
      return yield* this.table.update(id, members)
    const counted = yield* addUsage(row, members.members, this.#now())
    return yield* this.table.update(id, { ...members, ...counted })
  }

  *#add(
    row: AppConversationRow,
    maxOfOwner: number | undefined,
  ): Work<Awaited<ReturnType<AppConversationRows['add']>>> {
    const existing = yield* this.table.get(row.id)
    if (existing !== undefined) return { row: existing, created: false }
    if (maxOfOwner !== undefined && (yield* this.#countAll(row.owner)) >= maxOfOwner)
      throw new Problem('too_many', `The limit of ${maxOfOwner} conversations is reached: delete some first`)
    yield* this.table.insert({ ...row, ...this.#titleColumns(row.title) })
    return { row, created: true }
  }

  #countAll(owner: string | null): Work<number> {
    return this.table.count({ index: createdIndex, ...ownedBy({ owner }) })
  }

  #titleColumns(title: string | null) {
    const { toValue } = this.session.dialect.titleSearch
    const { folded_title, title_key } = titleKeys(title)
    return { folded_title: toValue(folded_title), title_key: toValue(title_key) }
  }
}
