import { type Instant, Problem } from '@slipway/protocol'
import { newestFirst } from '../listings.ts'
import type { PageQuery, RowChange, RowPage } from '../rows.ts'
import { changeLimits, type LimitColumns, toLimits } from '../user-limits.ts'
import type { ApiKeyRow, OrgCounts, OrgRow, UserLimits, UserRow, UserRows } from '../users.ts'
import { removeBudget } from './budgets.ts'
import { change, execute, query, queryColumn, queryNumber, type RowSession, type Work } from './session.ts'
import { Table } from './table.ts'

export const orgsOfUserClause = `JOIN member ON member.org = org.id WHERE member."user" = ? ORDER BY org.created_at, org.id`
export const keysClause = 'INDEXED BY api_key_user WHERE "user" = ? ORDER BY created_at DESC, id DESC'
/** A key, the keys that were created with it, and so on. */
const madeWithSql = `WITH RECURSIVE revoked (id) AS (
    SELECT id FROM api_key WHERE id = ?
    UNION SELECT api_key.id FROM revoked JOIN api_key ON api_key.created_by = revoked.id
  )`
const removeKeysSql = `${madeWithSql} DELETE FROM api_key WHERE id IN (SELECT id FROM revoked)`
const endKeysSql = `${madeWithSql} UPDATE api_key SET expires_at = ?
  WHERE id IN (SELECT id FROM revoked) AND coalesce(expires_at > ?, true)`
export const limitsSql =
  'SELECT max_conversations, max_stored_mb, max_sandboxes FROM user_limit WHERE "user" = ?'
const setLimitsSql = `INSERT INTO user_limit ("user", max_conversations, max_stored_mb, max_sandboxes)
  VALUES (?, ?, ?, ?) ON CONFLICT ("user") DO UPDATE SET max_conversations = excluded.max_conversations,
  max_stored_mb = excluded.max_stored_mb, max_sandboxes = excluded.max_sandboxes`
const addMemberSql = 'INSERT INTO member ("user", org) VALUES (?, ?) ON CONFLICT DO NOTHING'
const removeMemberSql = 'DELETE FROM member WHERE "user" = ? AND org = ? RETURNING 1'
const memberCondition = 'id IN (SELECT "user" FROM member WHERE org = ?)'
const countOfOrgSql = `SELECT (SELECT count(*) FROM member WHERE org = ?),
  (SELECT count(*) FROM sandbox WHERE org = ? AND wanted <> 'gone'),
  (SELECT count(*) FROM app_conversation WHERE org = ?)`
export const hashClause = 'WHERE hash = ?'
const markUsedSql = 'UPDATE api_key SET used_at = ? WHERE id = ? AND coalesce(used_at < ?, true)'
/** The tables that have rows of a user. */
const tablesOfUser = [
  ...['api_key', 'member', 'document', 'quota', 'user_limit'],
  ...['budget_reservation', 'budget_request'],
]
/** The tables that have rows of the sandboxes of a user. */
const tablesOfSandboxes = ['sandbox_event', 'sandbox_log']

export class UserStore implements UserRows {
  readonly #session: RowSession
  readonly #users: Table<UserRow>
  readonly #orgs: Table<OrgRow>
  readonly #keys: Table<ApiKeyRow>

  constructor(session: RowSession) {
    this.#session = session
    this.#users = new Table(session.dialect, 'user')
    this.#orgs = new Table(session.dialect, 'org')
    this.#keys = new Table(session.dialect, 'api_key')
  }

  addUser(row: UserRow): Promise<boolean> {
    return this.#session.write(() => this.#users.insert(row))
  }

  getUser(id: string): Promise<UserRow | undefined> {
    return this.#session.read(this.#users.get(id))
  }

  listUsers(query: PageQuery): Promise<RowPage<UserRow>> {
    return this.#session.read(this.#users.page(newestFirst('user_created'), query))
  }

  updateUser(id: string, members: RowChange<UserRow>): Promise<UserRow | undefined> {
    return this.#session.write(() => this.#users.update(id, members))
  }

  removeUser(id: string): Promise<boolean> {
    return this.#session.write(() => this.#removeUser(id))
  }

  addOrg(row: OrgRow): Promise<boolean> {
    return this.#session.write(() => this.#orgs.insert(row))
  }

  getOrg(id: string): Promise<OrgRow | undefined> {
    return this.#session.read(this.#orgs.get(id))
  }

  listOrgs(query: PageQuery): Promise<RowPage<OrgRow>> {
    return this.#session.read(this.#orgs.page(newestFirst('org_created'), query))
  }

  updateOrg(id: string, members: RowChange<OrgRow>): Promise<OrgRow | undefined> {
    return this.#session.write(() => this.#orgs.update(id, members))
  }

  countOfOrg(id: string): Promise<OrgCounts> {
    return this.#session.read(countOfOrg(id))
  }

  removeOrg(id: string): Promise<boolean> {
    return this.#session.write(() => this.#removeOrg(id))
  }

  listMembers(org: string, query: PageQuery): Promise<RowPage<UserRow>> {
    const members = { ...newestFirst('user_created'), where: [memberCondition], values: [org] }
    return this.#session.read(this.#users.page(members, query))
  }

  getLimits(user: string): Promise<UserLimits> {
    return this.#session.read(this.#limits(user))
  }

  setLimits(user: string, limits: Partial<UserLimits>): Promise<UserLimits> {
    return this.#session.write(() => this.#setLimits(user, limits))
  }

  addMember(org: string, user: string): Promise<void> {
    return this.#session.write(() => this.#addMember(org, user))
  }

  async removeMember(org: string, user: string): Promise<boolean> {
    const touched = { table: 'member', where: { user, org } }
    return (await this.#session.write(() => change(touched, removeMemberSql, user, org))).length > 0
  }

  listOrgsOfUser(user: string): Promise<readonly OrgRow[]> {
    return this.#session.read(this.#orgs.select(orgsOfUserClause, user))
  }

  addKey(row: ApiKeyRow): Promise<void> {
    return this.#session.write(() => this.#addKey(row))
  }

  findKeyByHash(hash: string): Promise<ApiKeyRow | undefined> {
    return this.#session.read(this.#keys.selectFirst(hashClause, hash))
  }

  listKeys(user: string): Promise<readonly ApiKeyRow[]> {
    return this.#session.read(this.#keys.select(keysClause, user))
  }

  countKeys(): Promise<number> {
    return this.#session.read(queryNumber('SELECT count(*) FROM api_key'))
  }

  markKeyUsed(id: string, used_at: Instant): Promise<void> {
    return this.#session.write(() => execute(markUsedSql, used_at, id, used_at))
  }

  removeKey(user: string, id: string): Promise<boolean> {
    return this.#session.write(() => this.#removeKey(user, id))
  }

  replaceKey(id: string, row: ApiKeyRow, endsAt: Instant | null): Promise<void> {
    return this.#session.write(() => this.#replaceKey(id, row, endsAt))
  }

  removeKeys(user: string): Promise<void> {
    return this.#session.write(() => removeOfUser('api_key', user))
  }

  *#limits(user: string): Work<UserLimits> {
    return toLimits((yield* query<LimitColumns>(limitsSql, user))[0])
  }

  *#setLimits(user: string, limits: Partial<UserLimits>): Work<UserLimits> {
    yield* this.#assertUserExists(user)
    const changed = changeLimits(yield* this.#limits(user), limits)
    const { max_conversations, max_stored_mb, max_sandboxes } = changed
    const touched = { table: 'user_limit', where: { user } }
    yield* change(touched, setLimitsSql, user, max_conversations, max_stored_mb, max_sandboxes)
    return changed
  }

  *#removeOrg(id: string): Work<boolean> {
    const { sandboxes, conversations } = yield* countOfOrg(id)
    if (sandboxes > 0 || conversations > 0) return false
    const where = { org: id }
    yield* change({ table: 'member', where }, 'DELETE FROM member WHERE org = ?', id)
    yield* change({ table: 'api_key', where }, 'DELETE FROM api_key WHERE org = ?', id)
    for (const { id: user } of yield* this.#users.select('WHERE org = ?', id))
      yield* this.#users.update(user, { org: null })
    yield* removeBudget(this.#session, 'organization', id)
    return yield* this.#orgs.remove(id)
  }

  *#removeUser(id: string): Work<boolean> {
    for (const table of tablesOfUser) yield* removeOfUser(table, id)
    yield* removeBudget(this.#session, 'user', id)
    for (const table of tablesOfSandboxes) yield* execute(`DELETE FROM ${table} WHERE owner = ?`, id)
    return yield* this.#users.remove(id)
  }

  *#addMember(org: string, user: string): Work<void> {
    if ((yield* this.#orgs.get(org)) === undefined) throw new Problem('not_found', 'Organization not found')
    yield* this.#assertUserExists(user)
    yield* change({ table: 'member', where: { user, org } }, addMemberSql, user, org)
  }

  *#addKey(row: ApiKeyRow): Work<void> {
    yield* this.#assertUserExists(row.user)
    if (!(yield* this.#keys.insert(row))) throw new Error(`a key has the id ${row.id} already`)
  }

  *#removeKey(user: string, id: string): Work<boolean> {
    const key = yield* this.#keys.get(id)
    if (key?.user !== user) return false
    yield* change({ table: 'api_key', where: { user } }, removeKeysSql, id)
    return true
  }

  *#replaceKey(id: string, row: ApiKeyRow, endsAt: Instant | null): Work<void> {
    const { user, created_by } = row
    if ((yield* this.#keys.get(id))?.user !== user) throw new Problem('not_found', 'There is no such key')
    const ending = yield* queryColumn<string>(`${madeWithSql} SELECT id FROM revoked`, id)
    if (created_by !== null && ending.includes(created_by))
      throw new Problem('forbidden', 'A key may not replace the one that it was made with')
    yield* this.#addKey(row)
    const touched = { table: 'api_key', where: { user } }
    if (endsAt === null) yield* change(touched, removeKeysSql, id)
    else yield* change(touched, endKeysSql, id, endsAt, endsAt)
  }

  /** Otherwise a later user of the same id would inherit the row. */
  *#assertUserExists(user: string): Work<void> {
    if ((yield* this.#users.get(user)) === undefined) throw new Problem('not_found', 'User not found')
  }
}

function* removeOfUser(table: string, user: string): Work<void> {
  yield* change({ table, where: { user } }, `DELETE FROM ${table} WHERE "user" = ?`, user)
}

function* countOfOrg(id: string): Work<OrgCounts> {
  const [row] = yield* query<[number, number, number]>(countOfOrgSql, id, id, id)
  const [members, sandboxes, conversations] = row ?? [0, 0, 0]
  return { members, sandboxes, conversations }
}
