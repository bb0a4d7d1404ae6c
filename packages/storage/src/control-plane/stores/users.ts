import { type Instant, Problem } from '@slipway/protocol'
import { newestFirst } from '../listings.ts'
import type { PageQuery, RowChange, RowPage } from '../rows.ts'
import { changeLimits, type LimitColumns, toLimits } from '../user-limits.ts'
import {
  type ApiKeyRow,
  documentsOfOrg,
  type MemberChange,
  type MemberRow,
  type OrgCounts,
  type OrgRole,
  type OrgRow,
  orgRoles,
  type UserLimits,
  type UserRow,
  type UserRows,
} from '../users.ts'
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
const setMemberSql = `INSERT INTO member ("user", org, role) VALUES (?, ?, ?)
  ON CONFLICT ("user", org) DO UPDATE SET role = excluded.role`
const removeMemberSql = 'DELETE FROM member WHERE "user" = ? AND org = ? RETURNING 1'
const roleSql = 'SELECT role FROM member WHERE org = ? AND "user" = ?'
const managersSql = 'SELECT "user", role FROM member WHERE org = ? AND role <> \'member\''
/** On PostgreSQL, changes of the members of an organisation wait for each other. */
const lockOrgSql = 'UPDATE org SET name = name WHERE id = ? RETURNING 1'
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

  listMembers(org: string, query: PageQuery): Promise<RowPage<MemberRow>> {
    return this.#session.read(this.#listMembers(org, query))
  }

  listManagers(org: string): Promise<readonly MemberRow[]> {
    return this.#session.read(this.#listManagers(org))
  }

  getRole(org: string, user: string): Promise<OrgRole | undefined> {
    return this.#session.read(roleOf(org, user))
  }

  getLimits(user: string): Promise<UserLimits> {
    return this.#session.read(this.#limits(user))
  }

  setLimits(user: string, limits: Partial<UserLimits>): Promise<UserLimits> {
    return this.#session.write(() => this.#setLimits(user, limits))
  }

  addMember(org: string, user: string, change: MemberChange = allOfMembers): Promise<void> {
    return this.#session.write(() => this.#setMember(org, user, change))
  }

  removeMember(org: string, user: string, change: MemberChange = allOfMembers): Promise<boolean> {
    return this.#session.write(() => this.#removeMember(org, user, change))
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
    yield* removeOfUser('document', documentsOfOrg(id))
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

  *#listMembers(org: string, query: PageQuery): Work<RowPage<MemberRow>> {
    const listing = { ...newestFirst('user_created'), where: [memberCondition], values: [org] }
    const { items, next_page_id } = yield* this.#users.page(listing, query)
    const roles = new Map(yield* listRolesOfManagers(org))
    return { items: items.map((user) => ({ ...user, role: roles.get(user.id) ?? 'member' })), next_page_id }
  }

  *#listManagers(org: string): Work<readonly MemberRow[]> {
    const roles = yield* listRolesOfManagers(org)
    const users = yield* this.#users.getAll(roles.map(([id]) => id))
    return roles
      .flatMap(([, role], at) => (users[at] === undefined ? [] : [{ ...users[at], role }]))
      .sort((a, b) => orgRoles.indexOf(a.role) - orgRoles.indexOf(b.role))
  }

  *#setMember(org: string, user: string, { role, mayChangeOwners }: MemberChange): Work<void> {
    if ((yield* query(lockOrgSql, org)).length === 0) throw new Problem('not_found', 'Organization not found')
    yield* this.#assertUserExists(user)
    const before = yield* roleOf(org, user)
    const next = role ?? before ?? 'member'
    if (next === before) return
    if (next === 'owner') assertMayChangeOwners(mayChangeOwners)
    yield* assertMayLose(org, user, before, mayChangeOwners, next)
    yield* change({ table: 'member', where: { user, org } }, setMemberSql, user, org, next)
  }

  *#removeMember(org: string, user: string, { mayChangeOwners }: MemberChange): Work<boolean> {
    yield* query(lockOrgSql, org)
    yield* assertMayLose(org, user, yield* roleOf(org, user), mayChangeOwners)
    const touched = { table: 'member', where: { user, org } }
    if ((yield* change(touched, removeMemberSql, user, org)).length === 0) return false
    for (const { id } of yield* this.#keys.select('WHERE "user" = ? AND org = ?', user, org))
      yield* this.#removeKey(user, id)
    if ((yield* this.#users.get(user))?.org === org) yield* this.#users.update(user, { org: null })
    return true
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

const allOfMembers: MemberChange = { mayChangeOwners: true }

function* roleOf(org: string, user: string): Work<OrgRole | undefined> {
  return (yield* queryColumn<OrgRole>(roleSql, org, user))[0]
}

function listRolesOfManagers(org: string): Work<readonly (readonly [user: string, role: OrgRole])[]> {
  return query<[string, OrgRole]>(managersSql, org)
}

/** An organisation keeps somebody who may change it, until that user is removed altogether. */
function* assertMayLose(
  org: string,
  user: string,
  before: OrgRole | undefined,
  mayChangeOwners: boolean | undefined,
  next: OrgRole = 'member',
): Work<void> {
  if (before === 'owner') assertMayChangeOwners(mayChangeOwners)
  if (before === undefined || orgRoles.indexOf(next) <= orgRoles.indexOf(before)) return
  const others = (yield* listRolesOfManagers(org)).filter(([id]) => id !== user)
  if (before === 'owner' ? others.every(([, role]) => role !== 'owner') : others.length === 0)
    throw new Problem(
      'conflict',
      `The organisation would have no other ${before}: give that role to another member first`,
      undefined,
      { code: 'last_manager' },
    )
}

function assertMayChangeOwners(mayChangeOwners: boolean | undefined): void {
  if (mayChangeOwners !== true)
    throw new Problem('forbidden', 'Only owners of the organisation make, lower or remove owners')
}

function* removeOfUser(table: string, user: string): Work<void> {
  yield* change({ table, where: { user } }, `DELETE FROM ${table} WHERE "user" = ?`, user)
}

function* countOfOrg(id: string): Work<OrgCounts> {
  const [row] = yield* query<[number, number, number]>(countOfOrgSql, id, id, id)
  const [members, sandboxes, conversations] = row ?? [0, 0, 0]
  return { members, sandboxes, conversations }
}
