import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { issueApiKey } from './api-keys.ts'
import { Authenticator } from './authenticator.ts'
import { issueServiceKey } from './service-keys.ts'

const hour = 3_600_000_000
const org = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0caa'

async function openFixture() {
  const trial = await openTestControlPlane()
  onTestFinished(() => trial[Symbol.asyncDispose]())
  const { users } = trial.controlPlane
  const limits = { daily_conversation_limit: null, created_at: 1 }
  await users.addOrg({ id: org, name: 'A', ...limits })
  for (const id of ['root', 'ann', 'bob'])
    await users.addUser({ id, name: id, email: null, org: null, is_admin: id === 'root', ...limits })
  await users.addMember(org, 'bob')
  const time = { now: 1_000 * 24 * hour + hour }
  const all = ['read', 'write', 'admin'] as const
  const service = await issueApiKey(users, 'root', { name: 'scheduler', scopes: all }, time.now)
  const sandboxes = { findByKey: async () => undefined }
  const authenticator = new Authenticator({ users, sandboxes, keys: [], now: () => time.now })
  const callerOf = (key: string, header = 'x-service-api-key') =>
    authenticator.authenticateCaller((name) => (name === header ? key : undefined))
  const issue = async (user: string, orgId: string, name = 'automation') => {
    const caller = { ...(await callerOf(service.key)), secret: service.key }
    return (await issueServiceKey(users, caller, { user, org: orgId, name }, time.now)).key
  }
  return { users, time, service, callerOf, issue }
}

test('a service gets the same key of a user all day, and another one on the next', async () => {
  const { time, issue, callerOf, users } = await openFixture()
  const key = await issue('ann', 'ann')
  expect(await callerOf(key)).toMatchObject({
    ...{ owner: 'ann', org: undefined, scopes: ['read', 'write'], isAdmin: false, boundOrg: null },
  })
  time.now += 20 * hour
  expect(await issue('ann', 'ann')).toBe(key)
  time.now += 20 * hour
  const next = await issue('ann', 'ann')
  expect(next).not.toBe(key)
  // What an earlier one has started still works.
  expect(await callerOf(key)).toMatchObject({ owner: 'ann' })
  time.now += 24 * hour
  await expect(callerOf(key)).rejects.toMatchObject({ code: 'unauthorized' })
  await issue('ann', 'ann')
  expect((await users.listKeys('ann')).filter(({ name }) => name === 'automation')).toHaveLength(2)
})

test('the keys of users, names and services differ, and end with the key of the service', async () => {
  const { issue, callerOf, users, service } = await openFixture()
  const keys = [await issue('ann', 'ann'), await issue('ann', 'ann', 'other'), await issue('bob', org)]
  expect(new Set(keys).size).toBe(3)
  expect(await callerOf(String(keys[2]))).toMatchObject({ owner: 'bob', boundOrg: org })
  await users.removeKey('root', service.row.id)
  for (const key of keys) await expect(callerOf(key)).rejects.toMatchObject({ code: 'unauthorized' })
})

test('a key that was revoked does not come back, and requests at once fail for none', async () => {
  const { issue, callerOf, users } = await openFixture()
  const [key] = await Promise.all([1, 2, 3].map(() => issue('ann', 'ann')))
  const leaked = String(key)
  for (const { id } of await users.listKeys('ann')) await users.removeKey('ann', id)
  const next = await issue('ann', 'ann')
  await expect(callerOf(leaked)).rejects.toMatchObject({ code: 'unauthorized' })
  expect(await callerOf(next)).toMatchObject({ owner: 'ann' })
  expect(await issue('ann', 'ann')).toBe(next)
})

test('a user of another organisation, and one that does not exist, have no key', async () => {
  const { issue } = await openFixture()
  await expect(issue('ann', org)).rejects.toMatchObject({ code: 'forbidden' })
  // Who is in an organisation has no personal one.
  await expect(issue('bob', 'bob')).rejects.toMatchObject({ code: 'forbidden' })
  await expect(issue('carl', 'carl')).rejects.toMatchObject({ code: 'not_found' })
})
