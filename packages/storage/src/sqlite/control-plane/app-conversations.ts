import { Problem } from '@slipway/protocol'
import type {
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from '../../control-plane/app-conversations.ts'
import { conversationConditions, conversationListing, titleKeys } from '../../control-plane/listings.ts'
import type { RowChange, RowPage, Scope } from '../../control-plane/rows.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { SqliteRows } from './rows.ts'
import { Table } from './table.ts'

export const titleSearch = { condition: 'instr(folded_title, ?) > 0', toValue: (folded: string) => folded }
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
    return this.table.page(conversationListing(scope, query, titleSearch), query)
  }

  async count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    const conditions = conversationConditions(scope, filter, titleSearch)
    return this.table.count({ index: 'app_conversation_created', ...conditions })
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
