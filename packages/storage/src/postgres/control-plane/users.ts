import { type Instant, Problem } from '@slipway/protocol'
import { newestFirst } from '../../control-plane/listings.ts'
import type { PageQuery, RowChange, RowPage } from '../../control-plane/rows.ts'
import { changeLimits, type LimitColumns, toLimits } from '../../control-plane/user-limits.ts'
import type { ApiKeyRow, OrgRow, UserLimits, UserRow, UserRows } from '../../control-plane/users.ts'
import type { PostgresDatabase, Session } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { Table } from './table.ts'
import { encodeText } from './text.ts'

const userColumns = ['id', 'name', 'email', 'org', 'is_admin', 'daily_conversation_limit', 'created_at']
const orgColumns = ['id', 'name', 'daily_conversation_limit', 'created_at']
const keyColumns = [
  ...['id', 'hash', 'user', 'org', 'name', 'scopes', 'not_before', 'expires_at', 'created_at', 'used_at'],
  'created_by',
]
/** A key, the keys that were created with it, and so on. */
const removeKeysSql = `WITH RECURSIVE revoked (id) AS (
    VALUES ($1::text COLLATE "C") UNION SELECT api_key.id FROM revoked JOIN api_key ON api_key.created_by = revoked.id
  ) DELETE FROM api_key WHERE id IN (SELECT id FROM revoked)`
const limitsSql = 'SELECT max_conversations, max_stored_mb, max_sandboxes FROM user_limit WHERE "user" = $1'
const setLimitsSql = `INSERT INTO user_limit ("user", max_conversations, max_stored_mb, max_sandboxes)
  VALUES ($1, $2, $3, $4) ON CONFLICT ("user") DO UPDATE SET max_conversations = excluded.max_conversations,
  max_stored_mb = excluded.max_stored_mb, max_sandboxes = excluded.max_sandboxes`
const markUsedSql =
  'UPDATE api_key SET used_at = $2::bigint WHERE id = $1 AND coalesce(used_at < $2::bigint, true)'

/** UserRows on PostgreSQL. */
export class PostgresUserRows implements UserRows {
  readonly #db: PostgresDatabase
  readonly #changes: ChangeQueue
  readonly #users: Table<UserRow>
  readonly #orgs: Table<OrgRow>
  readonly #keys: Table<ApiKeyRow>

  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
    this.#users = new Table(db, 'app_user', userColumns)
    this.#orgs = new Table(db, 'org', orgColumns)
    this.#keys = new Table(db, 'api_key', keyColumns, { scopes: 'json' })
  }

  addUser(row: UserRow): Promise<boolean> {
    return this.#changes.write((session) => this.#users.insert(session, row))
  }

  getUser(id: string): Promise<UserRow | undefined> {
    return this.#users.get(id)
  }

  listUsers(query: PageQuery): Promise<RowPage<UserRow>> {
    return this.#users.page(newestFirst('user_created'), query)
  }

  updateUser(id: string, members: RowChange<UserRow>): Promise<UserRow | undefined> {
    return this.#changes.write((session) => this.#users.update(session, id, members))
  }

  removeUser(id: string): Promise<boolean> {
    return this.#changes.write(async (session) => {
      for (const table of ['api_key', 'member', 'document', 'quota', 'user_limit'])
        await session.run(`DELETE FROM ${table} WHERE "user" = $1`, [encodeText(id)])
      return await this.#users.remove(session, id)
    })
  }

  addOrg(row: OrgRow): Promise<boolean> {
    return this.#changes.write((session) => this.#orgs.insert(session, row))
  }

  getOrg(id: string): Promise<OrgRow | undefined> {
    return this.#orgs.get(id)
  }

  listOrgs(query: PageQuery): Promise<RowPage<OrgRow>> {
    return this.#orgs.page(newestFirst('org_created'), query)
  }

  updateOrg(id: string, members: RowChange<OrgRow>): Promise<OrgRow | undefined> {
    return this.#changes.write((session) => this.#orgs.update(session, id, members))
  }

  async getLimits(user: string): Promise<UserLimits> {
    return toLimits((await this.#db.query<LimitColumns>(limitsSql, [encodeText(user)]))[0])
  }

  setLimits(user: string, limits: Partial<UserLimits>): Promise<UserLimits> {
    return this.#changes.write(async (session) => {
      await this.#assertUserExists(session, user)
      const { rows } = await session.run<LimitColumns>(limitsSql, [encodeText(user)])
      const changed = changeLimits(toLimits(rows[0]), limits)
      const { max_conversations, max_stored_mb, max_sandboxes } = changed
      await session.run(setLimitsSql, [encodeText(user), max_conversations, max_stored_mb, max_sandboxes])
      return changed
    })
  }

  addMember(org: string, user: string): Promise<void> {
    return this.#changes.write(async (session) => {
      if ((await this.#orgs.get(org, session)) === undefined)
        throw new Problem('not_found', 'Organization not found')
      await this.#assertUserExists(session, user)
      const sql = 'INSERT INTO member ("user", org) VALUES ($1, $2) ON CONFLICT DO NOTHING'
      await session.run(sql, [encodeText(user), encodeText(org)])
    })
  }

  removeMember(org: string, user: string): Promise<boolean> {
    const sql = 'DELETE FROM member WHERE "user" = $1 AND org = $2'
    return this.#changes.write(
      async (session) => (await session.run(sql, [encodeText(user), encodeText(org)])).rowCount > 0,
    )
  }

  listOrgsOfUser(user: string): Promise<readonly OrgRow[]> {
    const clause = `JOIN member ON member.org = org.id WHERE member."user" = $1 ORDER BY org.created_at, org.id`
    return this.#orgs.select(clause, [user])
  }

  addKey(row: ApiKeyRow): Promise<void> {
    return this.#changes.write(async (session) => {
      await this.#assertUserExists(session, row.user)
      if (!(await this.#keys.insert(session, row))) throw new Error(`a key has the id ${row.id} already`)
    })
  }

  findKeyByHash(hash: string): Promise<ApiKeyRow | undefined> {
    return this.#keys.selectFirst('WHERE hash = $1', [hash])
  }

  listKeys(user: string): Promise<readonly ApiKeyRow[]> {
    return this.#keys.select('WHERE "user" = $1 ORDER BY created_at DESC, id DESC', [user])
  }

  countKeys(): Promise<number> {
    return this.#keys.count({ where: [], values: [] })
  }

  async markKeyUsed(id: string, used_at: Instant): Promise<void> {
    await this.#changes.write((session) => session.run(markUsedSql, [encodeText(id), used_at]))
  }

  removeKey(user: string, id: string): Promise<boolean> {
    return this.#changes.write(async (session) => {
      const key = await this.#keys.get(id, session)
      if (key?.user !== user) return false
      await session.run(removeKeysSql, [encodeText(id)])
      return true
    })
  }

  async removeKeys(user: string): Promise<void> {
    await this.#changes.write((session) =>
      session.run('DELETE FROM api_key WHERE "user" = $1', [encodeText(user)]),
    )
  }

  /** Otherwise a later user of the same id would inherit the row. */
  async #assertUserExists(session: Session, user: string): Promise<void> {
    if ((await this.#users.get(user, session)) === undefined) throw new Problem('not_found', 'User not found')
  }
}
