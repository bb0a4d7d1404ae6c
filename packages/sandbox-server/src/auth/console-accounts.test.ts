import { randomUUID } from 'node:crypto'
import { must } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { issueApiKey } from './api-keys.ts'
import { Authenticator } from './authenticator.ts'
import { consoleAccounts } from './console-accounts.ts'

const inOneDay = () => Date.now() + 86_400_000
const sessionKey = () => `slipway-console-${randomUUID()}`

async function open() {
  const opened = await openTestControlPlane()
  onTestFinished(() => opened[Symbol.asyncDispose]())
  const { users } = opened.controlPlane
  const now = () => Date.now() * 1000
  const authenticator = new Authenticator({
    users,
    sandboxes: { findByKey: async () => undefined },
    keys: [],
    now,
  })
  const row = { name: 'Ann', email: null, org: null, is_admin: false, daily_conversation_limit: null }
  await users.addUser({ ...row, id: 'ann', created_at: now() })
  const accounts = consoleAccounts({ users, authenticator, now })
  const callerOf = (key: string) =>
    authenticator.authenticateCaller((name) => (name === 'x-session-api-key' ? key : undefined))
  return { users, accounts, callerOf, now }
}

test('a session has the scopes of its key, no others, and ends with it', async () => {
  const { users, accounts, callerOf, now } = await open()
  const { key, row } = await issueApiKey(users, 'ann', { scopes: ['read'] }, now())
  const session = sessionKey()
  await accounts.addSession(key, session, inOneDay())
  expect(await accounts.findUser(session)).toMatchObject({
    user_id: 'ann',
    scopes: ['read'],
    is_admin: false,
  })
  expect(await callerOf(session)).toMatchObject({ owner: 'ann', scopes: ['read'], keyId: row.id })
  await users.removeKey('ann', row.id)
  expect(await accounts.findUser(session)).toBeUndefined()
  await expect(callerOf(session)).rejects.toMatchObject({ code: 'unauthorized' })
})

test('what a session makes outlives it, and never the key of the session', async () => {
  const { users, accounts, callerOf, now } = await open()
  const expires_at = new Date(Date.now() + 7 * 86_400_000).toISOString()
  const { key } = await issueApiKey(users, 'ann', { scopes: ['read', 'write'], expires_at }, now())
  const session = sessionKey()
  await accounts.addSession(key, session, inOneDay())
  const made = await issueApiKey(users, 'ann', { scopes: ['read'] }, now(), await callerOf(session))
  expect(made.row.expires_at).toBe(Date.parse(expires_at) * 1000)
  expect(await accounts.removeSession(session)).toBe(true)
  expect(await accounts.findUser(session)).toBeUndefined()
  expect(await accounts.removeSession(session)).toBe(false)
  expect(await accounts.findUser(made.key)).toMatchObject({ scopes: ['read'] })
})

test('a session ends by time; an API key is no session to end', async () => {
  const { users, accounts, now } = await open()
  const { key } = await issueApiKey(users, 'ann', { scopes: ['read'] }, now())
  const session = sessionKey()
  await accounts.addSession(key, session, Date.now() - 1)
  expect(await accounts.findUser(session)).toBeUndefined()
  expect(await accounts.removeSession(key)).toBe(false)
  expect(await accounts.findUser(key)).toBeDefined()
})

test('sessions are in the list of keys, do not count for its limit, and of many the oldest ends', async () => {
  const { users, accounts, now } = await open()
  const { key } = await issueApiKey(users, 'ann', { scopes: ['read'] }, now())
  const sessions = Array.from({ length: 60 }, sessionKey)
  for (const session of sessions) await accounts.addSession(key, session, inOneDay())
  expect(await accounts.findUser(must(sessions.at(-1), 'the newest'))).toBeDefined()
  const names = (await users.listKeys('ann')).map(({ name }) => name)
  expect(names.filter((name) => name === 'console session')).toHaveLength(50)
  for (let i = 0; i < 99; i++) await issueApiKey(users, 'ann', { scopes: ['read'] }, now())
  const reserved = issueApiKey(users, 'ann', { name: 'console session', scopes: ['read'] }, now())
  await expect(reserved).rejects.toMatchObject({ code: 'bad_request' })
})
