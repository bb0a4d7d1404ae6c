import { randomBytes, randomUUID } from 'node:crypto'
import { type Instant, Problem, parseInstant, type Scope } from '@slipway/protocol'
import type { ApiKeyRow, UserRows } from '@slipway/storage/control-plane'
import { type Caller, defaultUserId, hashKey } from './authenticator.ts'

const maxKeysPerUser = 100

export interface KeyRequest {
  /** Of the row; made unless given, as the key. */
  readonly id?: string
  readonly key?: string
  readonly name?: string | undefined
  readonly org_id?: string | undefined
  readonly scopes: readonly Scope[]
  readonly not_before?: string | undefined
  readonly expires_at?: string | undefined
}

/** The key with which another is created: `keyId` is null for a key of the server. */
type KeyCreator = Pick<Caller, 'keyId' | 'expiresAt'>

const server: KeyCreator = { keyId: null, expiresAt: null }

/** Stores only the hash of a new key, which expires and is revoked with the key that created it. */
export async function issueApiKey(
  users: UserRows,
  user: string,
  request: KeyRequest,
  now: Instant,
  creator = server,
): Promise<{ readonly key: string; readonly row: ApiKeyRow }> {
  if (request.name === consoleKeyName)
    throw new Problem('bad_request', `${consoleKeyName} is a reserved name`)
  await assertRoom(users, user)
  const { id = randomUUID(), key = generateKey(), org_id, not_before, expires_at } = request
  if (org_id !== undefined && !(await users.listOrgsOfUser(user)).some((org) => org.id === org_id)) {
    throw new Problem('forbidden', 'The user is not a member of that organisation')
  }
  const row: ApiKeyRow = {
    id,
    hash: hashKey(key),
    user,
    org: org_id ?? null,
    name: request.name ?? null,
    scopes: [...new Set(request.scopes)],
    not_before: toInstant(not_before),
    expires_at: earlier(toInstant(expires_at), creator.expiresAt),
    created_at: now,
    used_at: null,
    created_by: creator.keyId,
  }
  await users.addKey(row)
  return { key, row }
}

/**
 * Another key (`key`: one that the caller has made) with the rights of `old`, which ends at `endsAt` with
 * all that was made with it; null: now. A Problem `forbidden` where the creator's key was made with the old
 * one: it would outlive its maker.
 */
export async function rotateApiKey(
  users: UserRows,
  old: ApiKeyRow,
  endsAt: Instant | null,
  {
    now,
    creator,
    key = generateKey(),
  }: { readonly now: Instant; readonly creator: KeyCreator; readonly key?: string | undefined },
): Promise<{ readonly key: string; readonly row: ApiKeyRow }> {
  if (old.name === consoleKeyName)
    throw new Problem('bad_request', 'A console session has no key to replace: sign out, and in again')
  if (old.expires_at !== null && old.expires_at <= now)
    throw new Problem('conflict', 'The key has ended: make a new one')
  if ((await users.findKeyByHash(hashKey(key))) !== undefined)
    throw new Problem('conflict', 'The new key is in use: make another one')
  if (endsAt !== null) await assertRoom(users, old.user)
  const row: ApiKeyRow = {
    ...old,
    id: randomUUID(),
    hash: hashKey(key),
    expires_at: earlier(old.expires_at, creator.expiresAt),
    created_at: now,
    used_at: null,
    // A key that replaces itself ends, so the new one has the same maker.
    created_by: creator.keyId === old.id ? old.created_by : creator.keyId,
  }
  await users.replaceKey(old.id, row, endsAt)
  return { key, row }
}

async function assertRoom(users: UserRows, user: string): Promise<void> {
  const keys = (await users.listKeys(user)).filter(({ name }) => name !== consoleKeyName)
  if (keys.length >= maxKeysPerUser)
    throw new Problem('conflict', `There are ${maxKeysPerUser} keys already; revoke some first`)
}

/** The name of keys of console sessions in the list of keys. */
export const consoleKeyName = 'console session'
const maxSessionsPerUser = 50

/**
 * Stores the hash of the key of a console session, with the rights of the caller; of many the oldest is
 * removed.
 */
export async function issueSessionKey(
  users: UserRows,
  { owner, boundOrg, scopes, keyId }: Caller,
  { key, expiresAt, now }: { readonly key: string; readonly expiresAt: Instant; readonly now: Instant },
): Promise<void> {
  if (owner === null) throw new Problem('forbidden', 'This key has no user')
  const sessions = (await users.listKeys(owner)).filter(({ name }) => name === consoleKeyName)
  const ended = sessions.filter(
    ({ expires_at }, index) => index >= maxSessionsPerUser - 1 || (expires_at !== null && expires_at <= now),
  )
  for (const { id } of ended) await users.removeKey(owner, id)
  await users.addKey({
    id: randomUUID(),
    hash: hashKey(key),
    user: owner,
    org: boundOrg,
    name: consoleKeyName,
    scopes,
    not_before: null,
    expires_at: expiresAt,
    created_at: now,
    used_at: null,
    created_by: keyId,
  })
}

/** Creates the first user if missing. Returns a new key of theirs on request, or when there is none. */
export async function bootstrapKey(
  users: UserRows,
  options: { readonly isRequested: boolean; readonly isConfigured: boolean; readonly now: Instant },
): Promise<string | undefined> {
  const { isRequested, isConfigured, now } = options
  await users.addUser({
    id: defaultUserId,
    name: 'Administrator',
    email: null,
    org: null,
    is_admin: true,
    daily_conversation_limit: null,
    created_at: now,
  })
  const isFirst = !isConfigured && (await users.countKeys()) === 0
  if (!isRequested && !isFirst) return undefined
  const request = { name: 'made at start', scopes: ['read', 'write', 'admin', 'operate'] as const }
  return (await issueApiKey(users, defaultUserId, request, now)).key
}

/** Null: never. */
function earlier(a: Instant | null, b: Instant | null): Instant | null {
  return a === null || b === null ? (a ?? b) : Math.min(a, b)
}

/** `sk-slipway-` and 256 random bits. */
export function generateKey(): string {
  return `sk-slipway-${randomBytes(32).toString('base64url')}`
}

function toInstant(text: string | undefined): Instant | null {
  return text === undefined ? null : (parseInstant(text) ?? null)
}
