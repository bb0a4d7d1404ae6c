import { randomUUID } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import { type controlRoutes, formatInstant, type Instant, Problem } from '@slipway/protocol'
import type { ApiKeyRow, OrgRow, PeopleRows, SandboxRows, UserRow } from '@slipway/storage'
import type { Quota } from '../accounts/quota.ts'
import { type KeyRequest, makeKey } from '../auth/api-keys.ts'
import { type Caller, callerOf } from '../auth/authenticator.ts'

type Routes = Pick<
  typeof controlRoutes,
  | 'listApiKeys'
  | 'createApiKey'
  | 'currentApiKey'
  | 'deleteApiKey'
  | 'quotaStatus'
  | 'setOrgQuota'
  | 'setUserQuota'
  | 'listUsers'
  | 'createUser'
  | 'patchUser'
  | 'deleteUser'
  | 'createUserKey'
  | 'listOrganizations'
  | 'createOrganization'
  | 'joinOrganization'
  | 'leaveOrganization'
>

/** Keys, users, organisations and quotas. */
export function keyHandlers(parts: {
  readonly people: PeopleRows
  readonly sandboxes: SandboxRows
  readonly quota: Quota
  readonly now: () => Instant
}): Handlers<Routes> {
  const { people, sandboxes, quota, now } = parts
  const made = async (user: string, request: KeyRequest) => {
    const { key, row } = await makeKey(people, user, request, now())
    return { status: 201, json: { ...keyInfo(row), key } }
  }
  const mustBeUser = async (id: string) => found(await people.user(id), 'user')
  const mustBeOrg = async (id: string) => found(await people.org(id), 'organisation')
  return {
    async listApiKeys(request) {
      return { json: (await people.keysOf(ownerOf(callerOf(request)))).map(keyInfo) }
    },
    async createApiKey(request) {
      const caller = callerOf(request)
      const { body } = request
      const missing = body.scopes.find((scope) => !caller.scopes.includes(scope))
      if (missing !== undefined) {
        throw new Problem('forbidden', `A key cannot make one with more rights: it has no scope ${missing}`)
      }
      if (caller.boundOrg !== null && body.org_id !== caller.boundOrg) {
        throw new Problem(
          'forbidden',
          'A key of an organisation makes keys of that organisation only: give org_id',
        )
      }
      return await made(ownerOf(caller), body)
    },
    async currentApiKey(request) {
      const { owner, org, scopes, keyId, boundOrg } = callerOf(request)
      const rows = owner === null ? [] : await people.keysOf(owner)
      const name = rows.find(({ id }) => id === keyId)?.name ?? null
      const auth_type = keyId === null ? 'configured_key' : 'api_key'
      return {
        json: {
          id: keyId,
          name,
          org_id: org ?? null,
          bound_org_id: boundOrg,
          user_id: owner,
          auth_type,
          scopes,
        },
      }
    },
    async deleteApiKey(request) {
      if (await people.removeKey(ownerOf(callerOf(request)), request.params.key_id)) return success
      throw new Problem('not_found', 'There is no such key')
    },
    async quotaStatus(request) {
      const { limit, used, resetAt } = await quota.status(callerOf(request))
      const remaining = limit === null ? null : Math.max(limit - used, 0)
      return {
        json: { daily_limit: limit, used_today: used, remaining, reset_at: formatInstant(resetAt) },
      }
    },
    async setOrgQuota({ params: { org_id }, body }) {
      const row = found(await people.changeOrg(org_id, body), 'organisation')
      return { json: { org_id, org_name: row.name, daily_conversation_limit: row.daily_conversation_limit } }
    },
    async setUserQuota({ params: { user_id }, body }) {
      const row = found(await people.changeUser(user_id, body), 'user')
      return { json: { user_id, daily_conversation_limit: row.daily_conversation_limit } }
    },
    async listUsers({ query }) {
      const { items, next_page_id } = await people.users(query)
      return { json: { items: items.map(userInfo), next_page_id } }
    },
    async createUser({ body }) {
      const { org_id, name, email, is_admin, daily_conversation_limit } = body
      if (org_id !== undefined) await mustBeOrg(org_id)
      const row: UserRow = {
        id: randomUUID(),
        name: name ?? null,
        email: email ?? null,
        org: org_id ?? null,
        is_admin,
        daily_conversation_limit,
        created_at: now(),
      }
      await people.addUser(row)
      if (org_id !== undefined) await people.join(org_id, row.id)
      return { status: 201, json: userInfo(row) }
    },
    async patchUser({ params: { user_id }, body: { org_id, ...members } }) {
      await mustBeUser(user_id)
      if (org_id) {
        await mustBeOrg(org_id)
        await people.join(org_id, user_id)
      }
      const given = Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
      const change = { ...given, ...(org_id === undefined ? {} : { org: org_id }) }
      return { json: userInfo(found(await people.changeUser(user_id, change), 'user')) }
    },
    async deleteUser(request) {
      const { user_id } = request.params
      await mustBeUser(user_id)
      if (callerOf(request).owner === user_id) throw new Problem('conflict', 'Nobody can remove themselves')
      const { items } = await sandboxes.search({ owner: user_id }, { limit: 1 })
      if (items.length > 0) throw new Problem('conflict', 'The user has sandboxes: delete them first')
      await people.removeUser(user_id)
      return success
    },
    async createUserKey({ params: { user_id }, body }) {
      return await made((await mustBeUser(user_id)).id, body)
    },
    async listOrganizations({ query }) {
      const { items, next_page_id } = await people.orgs(query)
      return { json: { items: items.map(orgInfo), next_page_id } }
    },
    async createOrganization({ body }) {
      const row: OrgRow = { id: randomUUID(), ...body, created_at: now() }
      await people.addOrg(row)
      return { status: 201, json: orgInfo(row) }
    },
    async joinOrganization({ params: { org_id, user_id } }) {
      await Promise.all([mustBeOrg(org_id), mustBeUser(user_id)])
      await people.join(org_id, user_id)
      return success
    },
    async leaveOrganization({ params: { org_id, user_id } }) {
      if (await people.leave(org_id, user_id)) return success
      throw new Problem('not_found', 'The user is no member of that organisation')
    },
  }
}

const success = { json: { success: true } }

function found<T>(row: T | undefined, what: string): T {
  if (row === undefined) throw new Problem('not_found', `There is no such ${what}`)
  return row
}

function ownerOf({ owner }: Caller): string {
  if (owner === null) throw new Problem('bad_request', 'This request was not made with an API key')
  return owner
}

function time(instant: Instant | null): string | null {
  return instant === null ? null : formatInstant(instant)
}

function keyInfo(row: ApiKeyRow) {
  return {
    id: row.id,
    name: row.name,
    org_id: row.org,
    scopes: row.scopes,
    created_at: time(row.created_at),
    last_used_at: time(row.used_at),
    not_before: time(row.not_before),
    expires_at: time(row.expires_at),
  }
}

function userInfo({ org, created_at, ...row }: UserRow) {
  return { ...row, org_id: org, created_at: time(created_at) }
}

function orgInfo({ created_at, ...row }: OrgRow) {
  return { ...row, created_at: time(created_at) }
}
