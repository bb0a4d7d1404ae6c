import { type ConsoleAccounts, isConsoleKey } from '@slipway/http'
import { type Instant, Problem } from '@slipway/protocol'
import type { UserRows } from '@slipway/storage/control-plane'
import { consoleKeyName, issueSessionKey } from './api-keys.ts'
import { type Authenticator, hashKey } from './authenticator.ts'

/**
 * The console sessions of a sandbox server: API keys that expire, and go with the key that they were made
 * with.
 */
export function consoleAccounts(deps: {
  readonly users: UserRows
  readonly authenticator: Pick<Authenticator, 'authenticateCaller'>
  readonly now: () => Instant
}): ConsoleAccounts {
  const { users, authenticator, now } = deps
  const findCaller = (key: string) =>
    authenticator
      .authenticateCaller((name) => (name === 'x-session-api-key' ? key : undefined))
      .catch((error: unknown) => {
        if (error instanceof Problem && error.code === 'unauthorized') return undefined
        throw error
      })
  return {
    isKeyRequired: true,
    async findUser(key) {
      const caller = await findCaller(key)
      if (caller === undefined) return undefined
      const { owner, org = null, scopes, isAdmin, expiresAt } = caller
      const row = isConsoleKey(key) ? await users.findKeyByHash(hashKey(key)) : undefined
      const user = owner === null ? undefined : await users.getUser(owner)
      const user_name = user?.name ?? user?.email ?? null
      const expires = row === undefined ? expiresAt : row.expires_at
      const expiresAtMs = expires === null ? null : Math.floor(expires / 1000)
      return { user_id: owner, user_name, org_id: org, scopes: [...scopes], is_admin: isAdmin, expiresAtMs }
    },
    async addSession(key, sessionKey, expiresAtMs) {
      const caller = await findCaller(key)
      if (caller === undefined) throw new Problem('unauthorized', 'Wrong key')
      await issueSessionKey(users, caller, { key: sessionKey, expiresAt: expiresAtMs * 1000, now: now() })
    },
    async removeSession(sessionKey) {
      await findCaller(sessionKey)
      const row = await users.findKeyByHash(hashKey(sessionKey))
      return row?.name === consoleKeyName && (await users.removeKey(row.user, row.id))
    },
  }
}
