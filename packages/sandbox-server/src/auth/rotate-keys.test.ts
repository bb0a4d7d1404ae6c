import { sandboxServerRoutes } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { generateKey, issueApiKey, rotateApiKey } from './api-keys.ts'
import { hashKey } from './authenticator.ts'

const scopes = ['read', 'write'] as const

async function openUsers() {
  const opened = await openTestControlPlane()
  onTestFinished(() => opened[Symbol.asyncDispose]())
  const { users } = opened.controlPlane
  const none = { email: null, org: null, daily_conversation_limit: null, created_at: 0 }
  for (const id of ['u', 'v']) await users.addUser({ id, name: id, is_admin: true, ...none })
  const issue = (
    user: string,
    creator = { keyId: null as string | null, expiresAt: null as number | null },
  ) => issueApiKey(users, user, { scopes }, 100, creator).then(({ row }) => row)
  const ids = async (user = 'u') => (await users.listKeys(user)).map(({ id }) => id).sort()
  return { users, issue, ids }
}

test('a key that replaces itself ends with what was made with it, and the new one has its maker and rights', async () => {
  const { users, issue, ids } = await openUsers()
  const root = await issue('v')
  const old = await issue('u', { keyId: root.id, expiresAt: 9_000 })
  const child = await issue('u', { keyId: old.id, expiresAt: 9_000 })
  const { key, row } = await rotateApiKey(users, old, null, {
    now: 200,
    creator: { keyId: old.id, expiresAt: 9_000 },
  })
  expect(row).toMatchObject({ user: 'u', scopes, expires_at: 9_000, created_by: root.id, created_at: 200 })
  expect(await users.findKeyByHash(hashKey(key))).toEqual(row)
  expect(await ids()).toEqual([row.id])
  expect(await users.findKeyByHash(child.hash)).toBeUndefined()
  await users.removeKey('v', root.id)
  expect(await ids()).toEqual([])
})

test('with a grace the old key and what was made with it end later, and never later than before', async () => {
  const { users, issue } = await openUsers()
  const old = await issue('u')
  const child = await issue('u', { keyId: old.id, expiresAt: null })
  const short = await issue('u', { keyId: old.id, expiresAt: 250 })
  const creator = { keyId: null, expiresAt: 5_000 }
  const { row } = await rotateApiKey(users, old, 300, { now: 200, creator })
  // It never outlives the key of who asks.
  expect(row).toMatchObject({ expires_at: 5_000, created_by: null })
  const ends = new Map((await users.listKeys('u')).map(({ id, expires_at }) => [id, expires_at]))
  expect([old, child, short].map(({ id }) => ends.get(id))).toEqual([300, 300, 250])
})

test('a key made with another, by way of others too, may not replace it', async () => {
  const { users, issue, ids } = await openUsers()
  const old = await issue('u')
  const other = await issue('v', { keyId: old.id, expiresAt: null })
  const grandchild = await issue('u', { keyId: other.id, expiresAt: null })
  const before = await ids()
  for (const { id } of [other, grandchild])
    await expect(
      rotateApiKey(users, old, null, { now: 200, creator: { keyId: id, expiresAt: null } }),
    ).rejects.toMatchObject({ code: 'forbidden' })
  expect(await ids()).toEqual(before)
  const ended = { ...old, expires_at: 150 }
  await expect(
    rotateApiKey(users, ended, null, { now: 200, creator: { keyId: null, expiresAt: null } }),
  ).rejects.toMatchObject({ code: 'conflict' })
})

test('a key that the caller has made is known also when the answer is lost, and is no key of anybody yet', async () => {
  const { users, issue, ids } = await openUsers()
  const [old, other] = [await issue('u'), await issue('v')]
  const key = generateKey()
  const options = { now: 200, creator: { keyId: old.id, expiresAt: null }, key }
  const { row } = await rotateApiKey(users, old, null, options)
  expect([row.hash, await ids()]).toEqual([hashKey(key), [row.id]])
  await expect(rotateApiKey(users, other, null, options)).rejects.toMatchObject({ code: 'conflict' })
  expect(await ids('v')).toEqual([other.id])
  const { body } = sandboxServerRoutes.rotateApiKey
  expect([key, 'sk-slipway-short', `${key}x`].map((text) => body.safeParse({ key: text }).success)).toEqual([
    true,
    false,
    false,
  ])
})
