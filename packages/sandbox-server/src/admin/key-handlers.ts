import type { Handlers } from '@slipway/http'
import {
  formatNullableInstant,
  type Instant,
  must,
  Problem,
  type Scope,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import type { ApiKeyRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach, assertMayGrant, isWithinReach } from '../auth/admin-reach.ts'
import { issueApiKey, type KeyRequest, rotateApiKey } from '../auth/api-keys.ts'
import { type Caller, extractKey, getCaller } from '../auth/authenticator.ts'
import { issueServiceKey } from '../auth/service-keys.ts'
import { requireFound } from './require-found.ts'

/** API keys of the caller, and those of services. */
export function keyHandlers({ users, now }: KeyDeps) {
  const { createKeyReply, rotateReply } = keyReplies({ users, now })
  /** A key of an organisation shows the keys of that organisation only. */
  const listVisibleKeys = async (caller: Caller) =>
    (await users.listKeys(requireOwner(caller))).filter(
      ({ org }) => caller.boundOrg === null || org === caller.boundOrg,
    )
  const issuing = new KeyedMutex()
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
    async rotateApiKey(request) {
      const caller = getCaller(request)
      const old = (await listVisibleKeys(caller)).find(({ id }) => id === request.params.key_id)
      return await rotateReply(caller, requireFound(old, 'key'), request.body)
    },
    async createServiceKey(request) {
      const { user_id: user, org_id: org } = request.params
      const { name } = request.body
      const secret = must(extractKey(request.header), 'the key of a caller')
      const service = { ...getCaller(request), secret }
      // Requests at once get one key.
      const { key, expires_at } = await issuing.runExclusive(user, () =>
        issueServiceKey(users, service, { user, org, name }, now()),
      )
      return { status: 201, json: { key, name, expires_at } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

interface RotateRequest {
  readonly grace_seconds: number
  readonly key: string | undefined
}

interface KeyDeps {
  readonly users: UserRows
  readonly now: () => Instant
}

/** API keys of users in the reach of an administrator. */
export function userKeyHandlers({ users, now }: KeyDeps) {
  const { createKeyReply, rotateReply } = keyReplies({ users, now })
  const reach = new AdminReach(users)
  /** A key of a user, of the organisation of the caller's key if that is bound to one. */
  const findUserKey = async (caller: Caller, { user_id, key_id }: { user_id: string; key_id: string }) => {
    const { id } = await reach.findUser(caller, user_id)
    const key = (await users.listKeys(id)).find((row) => row.id === key_id && isWithinReach(caller, row))
    return requireFound(key, 'key')
  }
  return {
    async listUserKeys(request) {
      const caller = getCaller(request)
      const { id } = await reach.findUser(caller, request.params.user_id)
      return { json: (await users.listKeys(id)).filter((row) => isWithinReach(caller, row)).map(keyInfo) }
    },
    async deleteUserKey(request) {
      const { id, user } = await findUserKey(getCaller(request), request.params)
      await users.removeKey(user, id)
      return success
    },
    async rotateUserKey(request) {
      const caller = getCaller(request)
      return await rotateReply(caller, await findUserKey(caller, request.params), request.body)
    },
    async createUserKey(request) {
      const caller = getCaller(request)
      const { id } = await reach.findUser(caller, request.params.user_id)
      assertMayGrant(caller, request.body)
      return await createKeyReply(id, request.body, caller)
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** Answers with a new key. */
function keyReplies({ users, now }: KeyDeps) {
  const createKeyReply = async (user: string, request: KeyRequest, creator: Caller) => {
    const { key, row } = await issueApiKey(users, user, request, now(), creator)
    return { status: 201, json: { ...keyInfo(row), key } }
  }
  const rotateReply = async (caller: Caller, old: ApiKeyRow, request: RotateRequest) => {
    const { grace_seconds: graceSeconds, key: made } = request
    assertMayGrant(caller, { scopes: old.scopes as Scope[], org_id: old.org ?? undefined })
    const at = now()
    const endsAt = graceSeconds === 0 ? null : at + graceSeconds * 1_000_000
    const { key, row } = await rotateApiKey(users, old, endsAt, { now: at, creator: caller, key: made })
    return { status: 201, json: { ...keyInfo(row), key } }
  }
  return { createKeyReply, rotateReply }
}

const success = { json: { success: true } }

function requireOwner({ owner }: Caller): string {
  if (owner === null) throw new Problem('bad_request', 'This request was not made with an API key')
  return owner
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
