/**
 * Keys of users for a service that works for them, such as a scheduler.
 *
 * A service asks for a key of a user whenever it starts something, and must get the same one while it is
 * valid: programs that it started hold it. The server stores hashes alone. So a key is made of the service's
 * own key, the user, the organisation and the id of its row: who has the service's key gets the same text
 * again while the row is there, and no one else can make it.
 *
 * - It ends with the service's key, and two days after its own day at the latest. Of a service with a key of
 *   the configuration it ends by its time alone.
 * - One that was revoked never comes back: the next one has another row.
 * - It has no more rights than the service's key, and never those of an administrator.
 */

import { createHmac, randomUUID } from 'node:crypto'
import { formatInstant, type Instant } from '@slipway/protocol'
import type { ApiKeyRow, UserRows } from '@slipway/storage/control-plane'
import { AdminReach, assertMayGrant } from './admin-reach.ts'
import { issueApiKey } from './api-keys.ts'
import { type Caller, hashKey } from './authenticator.ts'

const dayMicros = 86_400_000_000

interface ServiceKeyRequest {
  readonly user: string
  /** That of a user of no organisation is the user's own id. */
  readonly org: string
  readonly name: string
}

/** Problems: `not_found` for a user out of reach, `forbidden` where the user is no member. */
export async function issueServiceKey(
  users: UserRows,
  service: Caller & { readonly secret: string },
  { user, org, name }: ServiceKeyRequest,
  now: Instant,
): Promise<{ readonly key: string; readonly expires_at: string }> {
  await new AdminReach(users).findUser(service, user)
  const isPersonal = org === user && (await users.listOrgsOfUser(user)).length === 0
  const org_id = isPersonal ? undefined : org
  const scopes = ['read', 'write'] as const
  assertMayGrant(service, { scopes, org_id })
  const day = now - (now % dayMicros)
  const makeKey = (id: string) => {
    const text = JSON.stringify([user, org, name, id])
    return `sk-slipway-${createHmac('sha256', service.secret).update(text).digest('base64url')}`
  }
  const isOfToday = (row: ApiKeyRow) => row.created_at >= day && row.hash === hashKey(makeKey(row.id))
  const found = (await users.listKeys(user)).find(isOfToday)
  const { id, expires_at } = found ?? (await issue())
  return { key: makeKey(id), expires_at: formatInstant(expires_at ?? day + 2 * dayMicros) }

  async function issue(): Promise<ApiKeyRow> {
    await removeEnded(users, user, name, now)
    const id = randomUUID()
    const request = {
      id,
      key: makeKey(id),
      name,
      org_id,
      scopes,
      expires_at: formatInstant(day + 2 * dayMicros),
    }
    return (await issueApiKey(users, user, request, now, service)).row
  }
}

async function removeEnded(users: UserRows, user: string, name: string, now: Instant): Promise<void> {
  for (const row of await users.listKeys(user))
    if (row.name === name && row.expires_at !== null && row.expires_at <= now)
      await users.removeKey(user, row.id)
}
