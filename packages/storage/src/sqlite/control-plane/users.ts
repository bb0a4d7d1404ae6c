import { type Instant, Problem } from '@slipway/protocol'
import type {
  ApiKeyRow,
  OrgRow,
  PageQuery,
  PeopleRows,
  RowPage,
  UserRow,
} from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'
import type { Changes } from './change-queue.ts'
import { Table } from './table.ts'

export const orgsOfTail = `JOIN member ON member.org = org.id WHERE member.user = ? ORDER BY org.created_at, org.id`
export const keysTail = 'INDEXED BY api_key_user WHERE user = ? ORDER BY created_at DESC, id DESC'
export const hashTail = 'WHERE hash = ?'

/** PeopleRows on SQLite. */
export class SqlitePeopleRows implements PeopleRows {
  readonly #db: Database
  readonly #changes: Changes
  readonly #users: Table<UserRow>
  readonly #orgs: Table<OrgRow>
  readonly #keys: Table<ApiKeyRow>

  constructor(db: Database, changes: Changes) {
    this.#db = db
    this.#changes = changes
    this.#users = new Table<UserRow>(db, 'user', {
      id: 'plain',
      name: 'plain',
      email: 'plain',
      org: 'plain',
      is_admin: 'flag',
      daily_conversation_limit: 'plain',
      created_at: 'plain',
    })
    this.#orgs = new Table<OrgRow>(db, 'org', {
      id: 'plain',
      name: 'plain',
      daily_conversation_limit: 'plain',
      created_at: 'plain',
    })
    this.#keys = new Table<ApiKeyRow>(db, 'api_key', {
      id: 'plain',
      hash: 'plain',
      user: 'plain',
      org: 'plain',
      name: 'plain',
      scopes: 'json',
      not_before: 'plain',
      expires_at: 'plain',
      created_at: 'plain',
      used_at: 'plain',
    })
  }

  addUser(row: UserRow): Promise<boolean> {
    return this.#changes.write(() => this.#users.insert(row))
  }

  async user(id: string): Promise<UserRow | undefined> {
    return this.#users.get(id)
  }

  async users(query: PageQuery): Promise<RowPage<UserRow>> {
    return this.#users.page(newest('user_created'), query)
  }

  changeUser(id: string, members: Parameters<PeopleRows['changeUser']>[1]): Promise<UserRow | undefined> {
    return this.#changes.write(() => this.#users.update(id, members))
  }

  removeUser(id: string): Promise<boolean> {
    return this.#changes.write(() => {
      for (const table of ['api_key', 'member', 'document', 'quota'])
        this.#db.run(`DELETE FROM ${table} WHERE user = ?`, id)
      return this.#users.remove(id)
    })
  }

  addOrg(row: OrgRow): Promise<boolean> {
    return this.#changes.write(() => this.#orgs.insert(row))
  }

  async org(id: string): Promise<OrgRow | undefined> {
    return this.#orgs.get(id)
  }

  async orgs(query: PageQuery): Promise<RowPage<OrgRow>> {
    return this.#orgs.page(newest('org_created'), query)
  }

  changeOrg(id: string, members: Parameters<PeopleRows['changeOrg']>[1]): Promise<OrgRow | undefined> {
    return this.#changes.write(() => this.#orgs.update(id, members))
  }

  join(org: string, user: string): Promise<void> {
    return this.#changes.write(() => {
      if (this.#orgs.get(org) === undefined) throw new Problem('not_found', 'Organization not found')
      this.#mustBeThere(user)
      this.#db.run('INSERT INTO member (user, org) VALUES (?, ?) ON CONFLICT DO NOTHING', user, org)
    })
  }

  leave(org: string, user: string): Promise<boolean> {
    const sql = 'DELETE FROM member WHERE user = ? AND org = ? RETURNING 1'
    return this.#changes.write(() => this.#db.row(sql, user, org) !== undefined)
  }

  async orgsOf(user: string): Promise<readonly OrgRow[]> {
    return this.#orgs.rows(orgsOfTail, user)
  }

  addKey(row: ApiKeyRow): Promise<void> {
    return this.#changes.write(() => {
      this.#mustBeThere(row.user)
      if (!this.#keys.insert(row)) throw new Error(`a key has the id ${row.id} already`)
    })
  }

  async keyByHash(hash: string): Promise<ApiKeyRow | undefined> {
    return this.#keys.first(hashTail, hash)
  }

  async keysOf(user: string): Promise<readonly ApiKeyRow[]> {
    return this.#keys.rows(keysTail, user)
  }

  async countKeys(): Promise<number> {
    return this.#db.row<[number]>('SELECT count(*) FROM api_key')?.[0] ?? 0
  }

  touchKey(id: string, used_at: Instant): Promise<void> {
    const sql = 'UPDATE api_key SET used_at = ? WHERE id = ? AND coalesce(used_at < ?, true)'
    return this.#changes.write(() => this.#db.run(sql, used_at, id, used_at))
  }

  removeKey(user: string, id: string): Promise<boolean> {
    const sql = 'DELETE FROM api_key WHERE id = ? AND user = ? RETURNING 1'
    return this.#changes.write(() => this.#db.row(sql, id, user) !== undefined)
  }

  /** Nothing may be left to a user of the same id who comes later. */
  #mustBeThere(user: string): void {
    if (this.#users.get(user) === undefined) throw new Problem('not_found', 'User not found')
  }
}

/** The newest of a table first. */
export function newest(index: string) {
  return { index, by: 'created_at', isDescending: true, where: [], values: [] } as const
}
