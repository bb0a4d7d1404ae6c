import { randomUUID } from 'node:crypto'
import type { AuditRecord, Handlers, RecentAudit } from '@slipway/http'
import { formatInstant, type Instant, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { ApiKeyRow, OrgRow, SandboxRows, Scope, UserRow, UserRows } from '@slipway/storage/control-plane'
import type { Quota } from '../accounts/quota.ts'
import type { StorageQuota } from '../accounts/storage-quota.ts'
import { AdminReach, assertMayGrant, isWithinReach } from '../auth/admin-reach.ts'
import { issueApiKey, type KeyRequest } from '../auth/api-keys.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import { readSandboxQuota } from '../sandboxes/concurrency-limit.ts'

export function keyHandlers(deps: {
  readonly users: UserRows
  readonly sandboxes: SandboxRows
  readonly quota: Quota
  readonly storageQuota: Pick<StorageQuota, 'status'>
  readonly maxSandboxes: number
  readonly removeUser: (id: string, options: { readonly isWithSandboxes: boolean }) => Promise<void>
  readonly recentAudit: Pick<RecentAudit, 'read'>
  readonly now: () => Instant
}) {
  const { users, sandboxes, quota, storageQuota, maxSandboxes, recentAudit, now } = deps
  const readQuota = async (scope: Scope) => {
    const [daily, stored, running] = await Promise.all([
      quota.status(scope),
      storageQuota.status(scope.owner),
      readSandboxQuota({ users, rows: sandboxes, maxSandboxes }, scope.owner),
    ])
    const { limit, used, resetAt } = daily
    return {
      daily_limit: limit,
      used_today: used,
      remaining: limit === null ? null : Math.max(limit - used, 0),
      reset_at: formatInstant(resetAt),
      conversations: { limit: stored.maxConversations ?? null, used: stored.conversations },
      stored_bytes: { limit: stored.maxBytes ?? null, used: stored.bytes },
      sandboxes: { limit: running.limit ?? null, used: running.used },
    }
  }
  const createKeyReply = async (user: string, request: KeyRequest, creator: Caller) => {
    const { key, row } = await issueApiKey(users, user, request, now(), creator)
    return { status: 201, json: { ...keyInfo(row), key } }
  }
  /** A key of an organisation shows the keys of that organisation only. */
  const listVisibleKeys = async (caller: Caller) =>
    (await users.listKeys(requireOwner(caller))).filter(
      ({ org }) => caller.boundOrg === null || org === caller.boundOrg,
    )
  const reach = new AdminReach(users)
  return {
    async listApiKeys(request) {
      return { json: (await listVisibleKeys(getCaller(request))).map(keyInfo) }
    },
    async createApiKey(request) {
      const caller = getCaller(request)
      const { body } = request
      assertMayGrant(caller, body)
      return await createKeyReply(requireOwner(caller), body, caller)
    },
    async currentApiKey(request) {
      const { owner, org, scopes, keyId, boundOrg } = getCaller(request)
      const rows = owner === null ? [] : await users.listKeys(owner)
      const name = rows.find(({ id }) => id === keyId)?.name ?? null
      const auth_type = keyId === null ? 'configured_key' : 'api_key'
      const orgs = { org_id: org ?? null, bound_org_id: boundOrg }
      return { json: { id: keyId, name, ...orgs, user_id: owner, auth_type, scopes } }
    },
    async deleteApiKey(request) {
      const { key_id } = request.params
      const caller = getCaller(request)
      const isVisible = (await listVisibleKeys(caller)).some(({ id }) => id === key_id)
      if (isVisible && (await users.removeKey(requireOwner(caller), key_id))) return success
      throw new Problem('not_found', 'There is no such key')
    },
    async quotaStatus(request) {
      return { json: await readQuota(getCaller(request)) }
    },
    async getUserQuota(request) {
      const { id, org } = await reach.findUser(getCaller(request), request.params.user_id)
      return { json: await readQuota({ owner: id, org: org ?? undefined }) }
    },
    async setOrgQuota(request) {
      const { body } = request
      const { id: org_id } = await reach.findOrg(getCaller(request), request.params.org_id)
      const row = requireFound(await users.updateOrg(org_id, body), 'organisation')
      return { json: { org_id, org_name: row.name, daily_conversation_limit: row.daily_conversation_limit } }
    },
    async setUserQuota(request) {
      const { body } = request
      const { id: user_id } = await reach.findUserToChange(getCaller(request), request.params.user_id)
      const { daily_conversation_limit, ...limits } = body
      const change = daily_conversation_limit === undefined ? {} : { daily_conversation_limit }
      const row = requireFound(await users.updateUser(user_id, change), 'user')
      const stored = await users.setLimits(user_id, definedMembers(limits))
      return { json: { user_id, daily_conversation_limit: row.daily_conversation_limit, ...stored } }
    },
    async listUsers(request) {
      const { items, next_page_id } = await users.listUsers(request.query)
      const isShown = await Promise.all(items.map((user) => reach.includesUser(getCaller(request), user)))
      return { json: { items: items.filter((_, index) => isShown[index]).map(userInfo), next_page_id } }
    },
    async createUser(request) {
      const caller = getCaller(request)
      const { name, email, is_admin, daily_conversation_limit } = request.body
      const org_id = request.body.org_id ?? caller.boundOrg ?? undefined
      if (org_id !== undefined) await reach.findOrg(caller, org_id)
      assertMaySetAdmin(caller, is_admin)
      const row: UserRow = {
        id: randomUUID(),
        name: name ?? null,
        email: email ?? null,
        org: org_id ?? null,
        is_admin,
        daily_conversation_limit,
        created_at: now(),
      }
      await users.addUser(row)
      if (org_id !== undefined) await users.addMember(org_id, row.id)
      return { status: 201, json: userInfo(row) }
    },
    async patchUser(request) {
      const caller = getCaller(request)
      const { org_id, ...members } = request.body
      const { id: user_id } = await reach.findUserToChange(caller, request.params.user_id)
      assertMaySetAdmin(caller, members.is_admin)
      if (org_id) {
        await reach.findOrg(caller, org_id)
        await users.addMember(org_id, user_id)
      }
      const change = { ...definedMembers(members), ...(org_id === undefined ? {} : { org: org_id }) }
      return { json: userInfo(requireFound(await users.updateUser(user_id, change), 'user')) }
    },
    async deleteUser(request) {
      const { user_id } = request.params
      const caller = getCaller(request)
      await reach.findUser(caller, user_id)
      if (caller.owner === user_id) throw new Problem('conflict', 'Users cannot remove themselves')
      await reach.findUserToChange(caller, user_id)
      await deps.removeUser(user_id, { isWithSandboxes: request.query.with_sandboxes })
      return success
    },
    async createUserKey(request) {
      const caller = getCaller(request)
      const { id } = await reach.findUser(caller, request.params.user_id)
      assertMayGrant(caller, request.body)
      return await createKeyReply(id, request.body, caller)
    },
    async listOrganizations(request) {
      const { items, next_page_id } = await users.listOrgs(request.query)
      const shown = items.filter(({ id }) => isWithinReach(getCaller(request), { org: id }))
      return { json: { items: shown.map(orgInfo), next_page_id } }
    },
    async createOrganization({ body }) {
      const row: OrgRow = { id: randomUUID(), ...body, created_at: now() }
      await users.addOrg(row)
      return { status: 201, json: orgInfo(row) }
    },
    listAudit(request) {
      const { limit, page_id: before, caller, text, refused } = request.query
      const needle = text?.toLowerCase()
      const matches = (record: AuditRecord) =>
        isWithinReach(getCaller(request), record) &&
        (caller === undefined || record.caller === caller) &&
        (!refused || record.status >= 400) &&
        (needle === undefined || auditText(record).includes(needle))
      const { records, next } = recentAudit.read({ limit, before, matches })
      return {
        json: { items: records.map(auditInfo), next_page_id: next === undefined ? null : String(next) },
      }
    },
    async joinOrganization(request) {
      const { org_id, user_id } = request.params
      await reach.findOrg(getCaller(request), org_id)
      await reach.findUser(getCaller(request), user_id)
      await users.addMember(org_id, user_id)
      return success
    },
    async leaveOrganization(request) {
      const { org_id, user_id } = request.params
      await reach.findOrg(getCaller(request), org_id)
      if (await users.removeMember(org_id, user_id)) return success
      throw new Problem('not_found', 'The user is not a member of that organisation')
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const success = { json: { success: true } }

function requireFound<T>(row: T | undefined, what: string): T {
  if (row === undefined) throw new Problem('not_found', `There is no such ${what}`)
  return row
}

function assertMaySetAdmin({ boundOrg }: Caller, isAdmin: boolean | undefined): void {
  if (isAdmin === true && boundOrg !== null)
    throw new Problem('forbidden', 'A key of an organisation may not make administrators')
}

function requireOwner({ owner }: Caller): string {
  if (owner === null) throw new Problem('bad_request', 'This request was not made with an API key')
  return owner
}

function formatNullableInstant(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant)
}

function keyInfo(row: ApiKeyRow) {
  return {
    id: row.id,
    name: row.name,
    org_id: row.org,
    scopes: row.scopes,
    created_at: formatNullableInstant(row.created_at),
    last_used_at: formatNullableInstant(row.used_at),
    not_before: formatNullableInstant(row.not_before),
    expires_at: formatNullableInstant(row.expires_at),
  }
}

function userInfo({ org, created_at, ...row }: UserRow) {
  return { ...row, org_id: org, created_at: formatNullableInstant(created_at) }
}

function orgInfo({ created_at, ...row }: OrgRow) {
  return { ...row, created_at: formatNullableInstant(created_at) }
}

function auditText({ method, route, conversation, sandbox, via, request_id }: AuditRecord): string {
  return [method, route, conversation, sandbox, via, request_id].join(' ').toLowerCase()
}

function auditInfo(record: AuditRecord) {
  const { time, method, route, status, request_id } = record
  const { caller = null, org = null, via = null, conversation = null, sandbox = null } = record
  return { time, method, route, status, caller, org, via, conversation, sandbox, request_id }
}
