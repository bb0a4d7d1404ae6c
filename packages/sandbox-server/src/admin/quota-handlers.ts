import type { Handlers } from '@slipway/http'
import { formatInstant, type sandboxServerRoutes } from '@slipway/protocol'
import { definedMembers } from '@slipway/shared/json'
import type { SandboxRows, Scope, UserRows } from '@slipway/storage/control-plane'
import type { Quota } from '../accounts/quota.ts'
import type { StorageQuota } from '../accounts/storage-quota.ts'
import { AdminReach } from '../auth/admin-reach.ts'
import { getCaller } from '../auth/authenticator.ts'
import { readSandboxQuota } from '../sandboxes/concurrency-limit.ts'
import { requireFound } from './require-found.ts'

/** Limits of users and organisations, and what is used of them. */
export function quotaHandlers(deps: {
  readonly users: UserRows
  readonly sandboxes: SandboxRows
  readonly quota: Quota
  readonly storageQuota: Pick<StorageQuota, 'status'>
  readonly maxSandboxes: number
}) {
  const { users, sandboxes, quota, storageQuota, maxSandboxes } = deps
  const readQuota = async (scope: Scope) => {
    const [daily, stored, running] = await Promise.all([
      quota.status(scope),
      storageQuota.status(scope.owner),
      readSandboxQuota({ users, rows: sandboxes, maxSandboxes }, scope.owner),
    ])
    const { limit, used, resetAt, source, unlimitedOrgs } = daily
    return {
      daily_limit: limit,
      used_today: used,
      remaining: limit === null ? null : Math.max(limit - used, 0),
      reset_at: formatInstant(resetAt),
      daily_limit_source: source,
      org_id: scope.org ?? null,
      unlimited_org_ids: unlimitedOrgs,
      conversations: { limit: stored.maxConversations ?? null, used: stored.conversations },
      stored_bytes: { limit: stored.maxBytes ?? null, used: stored.bytes },
      sandboxes: { limit: running.limit ?? null, used: running.used },
    }
  }
  const reach = new AdminReach(users)
  return {
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
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
