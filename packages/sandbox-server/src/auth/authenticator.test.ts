import { randomUUID } from 'node:crypto'
import type { Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import type { ControlPlaneStore } from '@slipway/storage/control-plane'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { bootstrapKey, issueApiKey } from './api-keys.ts'
import { Authenticator, auditCaller, defaultUserId, hashKey } from './authenticator.ts'

const now = Date.UTC(2026, 0, 2) * 1000
const noSandboxes = { findByKey: async () => undefined }
const read: Route = {
  method: 'GET',
  path: '/api/v1/x',
  tag: 'sandboxes',
  access: 'user',
  summary: '',
  responses: {},
}
const write: Route = { ...read, method: 'POST' }
const admin: Route = { ...read, access: 'admin' }

function createAuthenticator(controlPlane: ControlPlaneStore, keys: readonly string[] = []) {
  return new Authenticator({
    users: controlPlane.users,
    sandboxes: noSandboxes,
    keys: keys.map((key) => new Secret(key)),
    now: () => now,
  })
}

function headers(members: Readonly<Record<string, string>>) {
  return (name: string) => members[name]
}

async function organisation(controlPlane: ControlPlaneStore, ...users: string[]): Promise<string> {
  const id = randomUUID()
  await controlPlane.users.addOrg({ id, name: 'O', daily_conversation_limit: null, created_at: now })
  for (const user of users) await controlPlane.users.addMember(id, user)
  return id
}

async function member(
  controlPlane: ControlPlaneStore,
  name: string,
  org: string | null = null,
): Promise<string> {
  const row = { name, email: null, org, is_admin: false, daily_conversation_limit: null, created_at: now }
  await controlPlane.users.addUser({ id: name, ...row })
  return name
}

test('the first start creates one key of the administrator, later ones only on request', async () => {
  await using trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  const first = await bootstrapKey(users, { isRequested: false, isConfigured: false, now })
  expect(first).toMatch(/^sk-slipway-[\w-]{43}$/)
  expect(await bootstrapKey(users, { isRequested: false, isConfigured: false, now })).toBeUndefined()
  const other = await bootstrapKey(users, { isRequested: true, isConfigured: false, now })
  const known = createAuthenticator(trial.controlPlane)
  for (const key of [first, other]) {
    expect(await known.authenticateCaller(headers({ authorization: `Bearer ${key}` }))).toMatchObject({
      owner: defaultUserId,
      isAdmin: true,
      scopes: ['read', 'write', 'admin', 'operate'],
    })
  }
  expect(JSON.stringify(await users.listKeys(defaultUserId))).not.toContain(String(first).slice(11))
})

test('with a configured key none is created, and that key is the administrator’s', async () => {
  await using trial = await openTestControlPlane()
  const key = 'configured-key'
  expect(
    await bootstrapKey(trial.controlPlane.users, { isRequested: false, isConfigured: true, now }),
  ).toBeUndefined()
  const known = createAuthenticator(trial.controlPlane, ['other', key])
  expect(await known.authenticateCaller(headers({ 'x-session-api-key': key }))).toMatchObject({
    owner: defaultUserId,
    keyId: null,
  })
})

test('a key may be in any of the headers of the wire, the bearer first', async () => {
  await using trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  await bootstrapKey(users, { isRequested: false, isConfigured: true, now })
  await member(trial.controlPlane, 'u')
  const request = { scopes: ['read'] as const }
  const { key: mine } = await issueApiKey(users, 'u', request, now)
  const { key: other } = await issueApiKey(users, defaultUserId, request, now)
  const known = createAuthenticator(trial.controlPlane)
  for (const values of [
    { authorization: `Bearer ${mine}` },
    { authorization: `bearer  ${mine}`, 'x-session-api-key': other },
    { 'x-session-api-key': mine, 'x-access-token': other },
    { 'x-access-token': mine, cookie: `api_key=${other}` },
  ]) {
    expect(await known.authenticateCaller(headers(values))).toMatchObject({ owner: 'u', scopes: ['read'] })
  }
})

test.for([
  {},
  { authorization: 'Bearer ' },
  { authorization: 'Basic abc' },
  { 'x-session-api-key': 'nobody' },
  { cookie: 'api_key=k' },
])('a request without a valid key is refused: %o', async (values: Record<string, string>) => {
  await using trial = await openTestControlPlane()
  await expect(
    createAuthenticator(trial.controlPlane, ['k']).authenticateCaller(headers(values)),
  ).rejects.toMatchObject({
    code: 'unauthorized',
  })
})

test('a key works from not_before to expires_at, and not after its revocation or the removal of its user', async () => {
  await using trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  await member(trial.controlPlane, 'u')
  const known = createAuthenticator(trial.controlPlane)
  const issueKey = async (not_before: string, expires_at: string) => {
    const made = await issueApiKey(users, 'u', { scopes: ['read'], not_before, expires_at }, now)
    return { ...made, ask: () => known.authenticateCaller(headers({ 'x-session-api-key': made.key })) }
  }
  const refused = { code: 'unauthorized' }
  const good = await issueKey('2026-01-02T00:00:00Z', '2026-01-02T00:00:00.000001Z')
  expect(await good.ask()).toMatchObject({ owner: 'u' })
  await expect((await issueKey('2026-01-02T00:00:01Z', '2027-01-01T00:00:00Z')).ask()).rejects.toMatchObject(
    refused,
  )
  await expect((await issueKey('2025-01-01T00:00:00Z', '2026-01-02T00:00:00Z')).ask()).rejects.toMatchObject(
    refused,
  )
  expect(await users.removeKey('somebody', good.row.id)).toBe(false)
  expect(await users.removeKey('u', good.row.id)).toBe(true)
  await expect(good.ask()).rejects.toMatchObject(refused)
  const last = await issueKey('2025-01-01T00:00:00Z', '2027-01-01T00:00:00Z')
  await users.removeUser('u')
  await expect(last.ask()).rejects.toMatchObject(refused)
})

test('scopes say which routes a key may call; admin routes also need an administrator', async () => {
  await using trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  await bootstrapKey(users, { isRequested: false, isConfigured: true, now })
  await member(trial.controlPlane, 'u')
  const known = createAuthenticator(trial.controlPlane)
  const may = async (user: string, scopes: ('read' | 'write' | 'admin')[], route: Route) => {
    const { key } = await issueApiKey(users, user, { scopes }, now)
    return await known
      .authenticate(route, headers({ 'x-session-api-key': key }))
      .then(() => true)
      .catch(({ code }) => code)
  }
  expect(await may('u', ['read'], read)).toBe(true)
  expect(await may('u', ['read'], write)).toBe('forbidden')
  expect(await may('u', ['write'], read)).toBe('forbidden')
  expect(await may('u', ['admin'], admin)).toBe('forbidden')
  expect(await may(defaultUserId, ['read', 'write'], admin)).toBe('forbidden')
  expect(await may(defaultUserId, ['admin'], admin)).toBe(true)
})

test('a request works in the organisation of its key, of its header, or of its user, in this order', async () => {
  await using trial = await openTestControlPlane()
  const { controlPlane } = trial
  const own = await organisation(controlPlane)
  await member(controlPlane, 'u', own)
  await controlPlane.users.addMember(own, 'u')
  const [other, foreign] = [await organisation(controlPlane, 'u'), await organisation(controlPlane)]
  const known = createAuthenticator(controlPlane)
  const free = (await issueApiKey(controlPlane.users, 'u', { scopes: ['read'] }, now)).key
  const bound = (await issueApiKey(controlPlane.users, 'u', { scopes: ['read'], org_id: other }, now)).key
  const org = async (key: string, asked?: string) => {
    const values = { 'x-session-api-key': key, ...(asked === undefined ? {} : { 'x-org-id': asked }) }
    return await known
      .authenticateCaller(headers(values))
      .then((caller) => caller.org)
      .catch(({ code }) => code)
  }
  expect(await org(free)).toBe(own)
  expect(await org(free, other.toUpperCase())).toBe(other)
  expect(await org(free, foreign)).toBe('forbidden')
  expect(await org(free, 'x')).toBe('bad_request')
  expect(await org(bound)).toBe(other)
  expect(await org(bound, other)).toBe(other)
  expect(await org(bound, own)).toBe('forbidden')
  // Of the user alone, who is in no organisation; members of one cannot leave its limits by that id.
  await member(controlPlane, 'alone')
  const alone = (await issueApiKey(controlPlane.users, 'alone', { scopes: ['read'] }, now)).key
  expect([await org(alone, 'alone'), await org(alone, 'u')]).toEqual([undefined, 'bad_request'])
  expect([await org(free, 'u'), await org(bound, 'u')]).toEqual(['bad_request', 'bad_request'])
})

test('only the SHA-256 of a key is stored', () => {
  expect(hashKey('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('the audit log names callers by id and never by key', () => {
  const caller = {
    owner: 'u1',
    org: 'o1',
    scopes: ['read'],
    keyId: 'k1',
    boundOrg: null,
    isAdmin: false,
  } as const
  expect(auditCaller(caller)).toEqual({ caller: 'user:u1', org: 'o1', via: 'k1' })
  expect(auditCaller({ ...caller, owner: null, org: undefined, keyId: null })).toEqual({
    caller: undefined,
    org: undefined,
    via: undefined,
  })
  expect(auditCaller({ sandbox: { id: 'sb-1', key_hash: 'hash', sealed: Buffer.from('x') } })).toEqual({
    caller: 'sandbox:sb-1',
  })
  expect(auditCaller(undefined)).toEqual({})
})
