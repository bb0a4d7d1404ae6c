import { randomUUID } from 'node:crypto'
import { type Route, Secret } from '@slipway/protocol'
import type { Ledger } from '@slipway/storage'
import { expect, test } from 'vitest'
import { openTrialLedger } from '../testing/fixtures.ts'
import { bootstrapKey, makeKey } from './api-keys.ts'
import { auditCaller, Callers, firstUser, hashOf } from './authenticator.ts'

const now = Date.UTC(2026, 0, 2) * 1000
const noSandboxes = { byKey: async () => undefined }
const read: Route = { method: 'GET', path: '/api/v1/x', tag: 'sandboxes', summary: '', responses: {} }
const write: Route = { ...read, method: 'POST' }
const admin: Route = { ...read, tag: 'admin' }

function callers(ledger: Ledger, keys: readonly string[] = []) {
  return new Callers({
    people: ledger.people,
    sandboxes: noSandboxes,
    keys: keys.map((key) => new Secret(key)),
    now: () => now,
  })
}

function headers(members: Readonly<Record<string, string>>) {
  return (name: string) => members[name]
}

async function organisation(ledger: Ledger, ...users: string[]): Promise<string> {
  const id = randomUUID()
  await ledger.people.addOrg({ id, name: 'O', daily_conversation_limit: null, created_at: now })
  for (const user of users) await ledger.people.join(id, user)
  return id
}

async function member(ledger: Ledger, name: string, org: string | null = null): Promise<string> {
  const row = { name, email: null, org, is_admin: false, daily_conversation_limit: null, created_at: now }
  await ledger.people.addUser({ id: name, ...row })
  return name
}

test('the first start makes one key of the administrator, and no later one unless it is wanted', async () => {
  await using trial = await openTrialLedger()
  const { people } = trial.ledger
  const first = await bootstrapKey(people, { isWanted: false, isConfigured: false, now })
  expect(first).toMatch(/^sk-slipway-[\w-]{43}$/)
  expect(await bootstrapKey(people, { isWanted: false, isConfigured: false, now })).toBeUndefined()
  const other = await bootstrapKey(people, { isWanted: true, isConfigured: false, now })
  const known = callers(trial.ledger)
  for (const key of [first, other]) {
    expect(await known.of(headers({ authorization: `Bearer ${key}` }))).toMatchObject({
      owner: firstUser,
      isAdmin: true,
      scopes: ['read', 'write', 'admin'],
    })
  }
  expect(JSON.stringify(await people.keysOf(firstUser))).not.toContain(String(first).slice(11))
})

test('with a configured key none is made, and that key is the administrator', async () => {
  await using trial = await openTrialLedger()
  const key = 'configured-key'
  expect(
    await bootstrapKey(trial.ledger.people, { isWanted: false, isConfigured: true, now }),
  ).toBeUndefined()
  const known = callers(trial.ledger, ['other', key])
  expect(await known.of(headers({ 'x-session-api-key': key }))).toMatchObject({
    owner: firstUser,
    keyId: null,
  })
})

test('a key comes in any of the headers of the wire, the bearer before the others', async () => {
  await using trial = await openTrialLedger()
  const { people } = trial.ledger
  await bootstrapKey(people, { isWanted: false, isConfigured: true, now })
  await member(trial.ledger, 'u')
  const request = { scopes: ['read'] as const }
  const { key: mine } = await makeKey(people, 'u', request, now)
  const { key: other } = await makeKey(people, firstUser, request, now)
  const known = callers(trial.ledger)
  for (const given of [
    { authorization: `Bearer ${mine}` },
    { authorization: `bearer  ${mine}`, 'x-session-api-key': other },
    { 'x-session-api-key': mine, 'x-access-token': other },
    { 'x-access-token': mine, cookie: `api_key=${other}` },
  ]) {
    expect(await known.of(headers(given))).toMatchObject({ owner: 'u', scopes: ['read'] })
  }
})

test.for([
  {},
  { authorization: 'Bearer ' },
  { authorization: 'Basic abc' },
  { 'x-session-api-key': 'nobody' },
  { cookie: 'api_key=k' },
])('without a key of ours nobody is let in: %o', async (given: Record<string, string>) => {
  await using trial = await openTrialLedger()
  await expect(callers(trial.ledger, ['k']).of(headers(given))).rejects.toMatchObject({
    code: 'unauthorized',
  })
})

test('a key works from its first moment to its last, and not after it was revoked or its user removed', async () => {
  await using trial = await openTrialLedger()
  const { people } = trial.ledger
  await member(trial.ledger, 'u')
  const known = callers(trial.ledger)
  const given = async (not_before: string, expires_at: string) => {
    const made = await makeKey(people, 'u', { scopes: ['read'], not_before, expires_at }, now)
    return { ...made, ask: () => known.of(headers({ 'x-session-api-key': made.key })) }
  }
  const refused = { code: 'unauthorized' }
  const good = await given('2026-01-02T00:00:00Z', '2026-01-02T00:00:00.000001Z')
  expect(await good.ask()).toMatchObject({ owner: 'u' })
  await expect((await given('2026-01-02T00:00:01Z', '2027-01-01T00:00:00Z')).ask()).rejects.toMatchObject(
    refused,
  )
  await expect((await given('2025-01-01T00:00:00Z', '2026-01-02T00:00:00Z')).ask()).rejects.toMatchObject(
    refused,
  )
  expect(await people.removeKey('somebody', good.row.id)).toBe(false)
  expect(await people.removeKey('u', good.row.id)).toBe(true)
  await expect(good.ask()).rejects.toMatchObject(refused)
  const last = await given('2025-01-01T00:00:00Z', '2027-01-01T00:00:00Z')
  await people.removeUser('u')
  await expect(last.ask()).rejects.toMatchObject(refused)
})

test('scopes say which routes a key may call; admin routes also need an administrator', async () => {
  await using trial = await openTrialLedger()
  const { people } = trial.ledger
  await bootstrapKey(people, { isWanted: false, isConfigured: true, now })
  await member(trial.ledger, 'u')
  const known = callers(trial.ledger)
  const may = async (user: string, scopes: ('read' | 'write' | 'admin')[], route: Route) => {
    const { key } = await makeKey(people, user, { scopes }, now)
    return await known
      .identify(route, headers({ 'x-session-api-key': key }))
      .then(() => true)
      .catch(({ code }) => code)
  }
  expect(await may('u', ['read'], read)).toBe(true)
  expect(await may('u', ['read'], write)).toBe('forbidden')
  expect(await may('u', ['write'], read)).toBe('forbidden')
  expect(await may('u', ['admin'], admin)).toBe('forbidden')
  expect(await may(firstUser, ['read', 'write'], admin)).toBe('forbidden')
  expect(await may(firstUser, ['admin'], admin)).toBe(true)
})

test('a request works in the organisation of its key, of its header, or of its user, in this order', async () => {
  await using trial = await openTrialLedger()
  const { ledger } = trial
  const own = await organisation(ledger)
  await member(ledger, 'u', own)
  await ledger.people.join(own, 'u')
  const [other, foreign] = [await organisation(ledger, 'u'), await organisation(ledger)]
  const known = callers(ledger)
  const free = (await makeKey(ledger.people, 'u', { scopes: ['read'] }, now)).key
  const bound = (await makeKey(ledger.people, 'u', { scopes: ['read'], org_id: other }, now)).key
  const org = async (key: string, asked?: string) => {
    const given = { 'x-session-api-key': key, ...(asked === undefined ? {} : { 'x-org-id': asked }) }
    return await known
      .of(headers(given))
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
})

test('what is kept of a key is its SHA-256', () => {
  expect(hashOf('abc')).toBe('ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')
})

test('callers are written down by their ids and never by a key', () => {
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
