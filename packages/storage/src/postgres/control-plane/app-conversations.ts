import { Problem } from '@slipway/protocol'
import type {
  AppConversationFilter,
  AppConversationQuery,
  AppConversationRow,
  AppConversationRows,
} from '../../control-plane/app-conversations.ts'
import { conversationConditions, conversationListing, titleKeys } from '../../control-plane/listings.ts'
import type { RowChange, RowPage, Scope } from '../../control-plane/rows.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { PostgresRows } from './rows.ts'
import { Table } from './table.ts'
import { encodeText } from './text.ts'

const columns = [
  ...['id', 'owner', 'org', 'sandbox', 'parent', 'title', 'folded_title', 'title_key', 'status', 'members'],
  ...['created_at', 'updated_at'],
]
const titleSearch = {
  condition: 'position(?::bytea IN folded_title) > 0',
  toValue: (folded: string) => Buffer.from(folded.toWellFormed()),
}

/** AppConversationRows on PostgreSQL. */
export class PostgresAppConversationRows
  extends PostgresRows<AppConversationRow>
  implements AppConversationRows
{
  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    const forms = { folded_title: 'hidden', title_key: 'hidden' } as const
    super(db, changes, new Table(db, 'app_conversation', columns, forms))
  }

  add(
    row: AppConversationRow,
    { maxOfOwner }: Parameters<AppConversationRows['add']>[1] = {},
  ): ReturnType<AppConversationRows['add']> {
    return this.changes.write(async (session) => {
      const existing = await this.table.get(row.id, session)
      if (existing !== undefined) return { row: existing, created: false }
      if (maxOfOwner !== undefined) {
        const sql = 'SELECT count(*) FROM app_conversation WHERE owner = $1'
        const { rows } = await session.run<[number]>(sql, [encodeText(row.owner ?? '')])
        if ((rows[0]?.[0] ?? 0) >= maxOfOwner)
          throw new Problem(
            'too_many',
            `The limit of ${maxOfOwner} conversations is reached: delete some first`,
          )
      }
      await this.table.insert(session, { ...row, ...titleBytes(row.title) })
      return { row, created: true }
    })
  }

  override update(
    id: string,
    members: RowChange<AppConversationRow>,
  ): Promise<AppConversationRow | undefined> {
    const keys = members.title === undefined ? {} : titleBytes(members.title)
    return super.update(id, { ...members, ...keys })
  }

  async listIds(owner: string): Promise<readonly string[]> {
    const sql = 'SELECT id FROM app_conversation WHERE owner = $1 ORDER BY created_at, id'
    return (await this.db.query<[string]>(sql, [encodeText(owner)])).map(([id]) => id)
  }

  countAll(owner: string): Promise<number> {
    return this.table.count({ where: ['owner = ?'], values: [owner] })
  }

  search(scope: Scope, query: AppConversationQuery): Promise<RowPage<AppConversationRow>> {
    return this.table.page(conversationListing(scope, query, titleSearch), query)
  }

  count(scope: Scope, filter: AppConversationFilter): Promise<number> {
    return this.table.count(conversationConditions(scope, filter, titleSearch))
  }

  listBySandbox(sandbox: string): Promise<readonly AppConversationRow[]> {
    return this.table.select('WHERE sandbox = $1 ORDER BY created_at, id', [sandbox])
  }

  listChildren(id: string): Promise<readonly AppConversationRow[]> {
    return this.table.select('WHERE parent = $1 ORDER BY created_at, id', [id])
  }
}

function titleBytes(title: string | null) {
  const { folded_title, title_key } = titleKeys(title)
  return { folded_title: Buffer.from(folded_title), title_key: Buffer.from(title_key) }
}
