import type { Handlers } from '@slipway/http'
import {
  formatNullableInstant,
  type Instant,
  must,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import { KeyedMutex } from '@slipway/shared/async'
import type { ApiKeyRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach, assertMayGrant } from '../auth/admin-reach.ts'
import { issueApiKey, type KeyRequest } from '../auth/api-keys.ts'
import { type Caller, extractKey, getCaller } from '../auth/authenticator.ts'
import { issueServiceKey } from '../auth/service-keys.ts'

/** API keys of the caller, and new ones of users in its reach. */
export function keyHandlers({ users, now }: { readonly users: UserRows; readonly now: () => Instant }) {
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
    async createUserKey(request) {
      const caller = getCaller(request)
      const { id } = await reach.findUser(caller, request.params.user_id)
      assertMayGrant(caller, request.body)
      return await createKeyReply(id, request.body, caller)
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
