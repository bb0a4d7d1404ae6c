import { type Instant, Problem } from '@slipway/protocol'
import { newestFirst } from '../../control-plane/listings.ts'
import type { PageQuery, RowChange, RowPage } from '../../control-plane/rows.ts'
import { changeLimits, type LimitColumns, toLimits } from '../../control-plane/user-limits.ts'
import type { ApiKeyRow, OrgRow, UserLimits, UserRow, UserRows } from '../../control-plane/users.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { Table } from './table.ts'

export const orgsOfUserClause = `JOIN member ON member.org = org.id WHERE member.user = ? ORDER BY org.created_at, org.id`
export const keysClause = 'INDEXED BY api_key_user WHERE user = ? ORDER BY created_at DESC, id DESC'
/** A key, the keys that were created with it, and so on. */
const removeKeysSql = `WITH RECURSIVE revoked (id) AS (
    VALUES (?) UNION SELECT api_key.id FROM revoked JOIN api_key ON api_key.created_by = revoked.id
  ) DELETE FROM api_key WHERE id IN (SELECT id FROM revoked)`
export const limitsSql =
  'SELECT max_conversations, max_stored_mb, max_sandboxes FROM user_limit WHERE user = ?'
const setLimitsSql =
  'INSERT OR REPLACE INTO user_limit (user, max_conversations, max_stored_mb, max_sandboxes) VALUES (?, ?, ?, ?)'
export const hashClause = 'WHERE hash = ?'

/** UserRows on SQLite. */
export class SqliteUserRows implements UserRows {
  readonly #db: Database
  readonly #changes: ChangeQueue
  readonly #users: Table<UserRow>
  readonly #orgs: Table<OrgRow>
  readonly #keys: Table<ApiKeyRow>

  constructor(db: Database, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
    this.#users = new Table(db, 'user', { is_admin: 'flag' })
    this.#orgs = new Table(db, 'org')
    this.#keys = new Table(db, 'api_key', { scopes: 'json' })
  }

  addUser(row: UserRow): Promise<boolean> {
    return this.#changes.write(() => this.#users.insert(row))
  }

  async getUser(id: string): Promise<UserRow | undefined> {
    return this.#users.get(id)
  }

  async listUsers(query: PageQuery): Promise<RowPage<UserRow>> {
    return this.#users.page(newestFirst('user_created'), query)
  }

  updateUser(id: string, members: RowChange<UserRow>): Promise<UserRow | undefined> {
    return this.#changes.write(() => this.#users.update(id, members))
  }

  removeUser(id: string): Promise<boolean> {
    return this.#changes.write(() => {
      for (const table of ['api_key', 'member', 'document', 'quota', 'user_limit'])
        this.#db.run(`DELETE FROM ${table} WHERE user = ?`, id)
      return this.#users.remove(id)
    })
  }

  addOrg(row: OrgRow): Promise<boolean> {
    return this.#changes.write(() => this.#orgs.insert(row))
  }

  async getOrg(id: string): Promise<OrgRow | undefined> {
    return this.#orgs.get(id)
  }

  async listOrgs(query: PageQuery): Promise<RowPage<OrgRow>> {
    return this.#orgs.page(newestFirst('org_created'), query)
  }

  updateOrg(id: string, members: RowChange<OrgRow>): Promise<OrgRow | undefined> {
    return this.#changes.write(() => this.#orgs.update(id, members))
  }

  async getLimits(user: string): Promise<UserLimits> {
    return this.#limits(user)
  }

  setLimits(user: string, limits: Partial<UserLimits>): Promise<UserLimits> {
    return this.#changes.write(() => {
      this.#assertUserExists(user)
      const changed = changeLimits(this.#limits(user), limits)
      this.#db.run(
        setLimitsSql,
        user,
        changed.max_conversations,
        changed.max_stored_mb,
        changed.max_sandboxes,
      )
      return changed
    })
  }

  addMember(org: string, user: string): Promise<void> {
    return this.#changes.write(() => {
      if (this.#orgs.get(org) === undefined) throw new Problem('not_found', 'Organization not found')
      this.#assertUserExists(user)
      this.#db.run('INSERT INTO member (user, org) VALUES (?, ?) ON CONFLICT DO NOTHING', user, org)
    })
  }

  removeMember(org: string, user: string): Promise<boolean> {
    const sql = 'DELETE FROM member WHERE user = ? AND org = ? RETURNING 1'
    return this.#changes.write(() => this.#db.get(sql, user, org) !== undefined)
  }

  async listOrgsOfUser(user: string): Promise<readonly OrgRow[]> {
    return this.#orgs.select(orgsOfUserClause, user)
  }

  addKey(row: ApiKeyRow): Promise<void> {
    return this.#changes.write(() => {
      this.#assertUserExists(row.user)
      if (!this.#keys.insert(row)) throw new Error(`a key has the id ${row.id} already`)
    })
  }

  async findKeyByHash(hash: string): Promise<ApiKeyRow | undefined> {
    return this.#keys.selectFirst(hashClause, hash)
  }

  async listKeys(user: string): Promise<readonly ApiKeyRow[]> {
    return this.#keys.select(keysClause, user)
  }

  async countKeys(): Promise<number> {
    return this.#db.get<[number]>('SELECT count(*) FROM api_key')?.[0] ?? 0
  }

  markKeyUsed(id: string, used_at: Instant): Promise<void> {
    const sql = 'UPDATE api_key SET used_at = ? WHERE id = ? AND coalesce(used_at < ?, true)'
    return this.#changes.write(() => this.#db.run(sql, used_at, id, used_at))
  }

  removeKey(user: string, id: string): Promise<boolean> {
    return this.#changes.write(() => {
      const isFound = this.#db.get('SELECT 1 FROM api_key WHERE id = ? AND user = ?', id, user) !== undefined
      if (isFound) this.#db.run(removeKeysSql, id)
      return isFound
    })
  }

  removeKeys(user: string): Promise<void> {
    return this.#changes.write(() => this.#db.run('DELETE FROM api_key WHERE user = ?', user))
  }

  #limits(user: string): UserLimits {
    return toLimits(this.#db.get<LimitColumns>(limitsSql, user))
  }

  /** Otherwise a later user of the same id would inherit the row. */
  #assertUserExists(user: string): void {
    if (this.#users.get(user) === undefined) throw new Problem('not_found', 'User not found')
  }
}
