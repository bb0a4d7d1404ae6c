import { afterAll, beforeAll, expect, test } from 'vitest'
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import {
  type AppConversation,
  administrator,
  createUser,
  createUserKey,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  textModel,
  User,
} from '../support/sandbox-server/user.ts'

/** What a key with few rights tries to reach. */

let fixture: SandboxServerFixture
let server: SandboxServer
let ann: User
let reader: User
let sandbox: SandboxInfo
let conversation: AppConversation
beforeAll(async () => {
  fixture = await openSandboxServer()
  server = fixture.server
  ann = await createUser(server, { name: 'Ann' })
  await ann.setModel({ ...textModel, api_key: 'the-key-of-the-model' })
  conversation = await ann.createConversation()
  reader = await createUserKey(server, ann.id, { scopes: ['read'] })
  sandbox = await ann.waitForSandbox(conversation.sandbox_id, 'RUNNING')
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

test('a key without the scope write gets no session key, and no secrets with one', async () => {
  const lists: readonly unknown[] = [
    await reader.getSandbox(sandbox.id),
    ...(await reader.get<ListPage<SandboxInfo>>('/api/v1/sandboxes/search')).items,
    await reader.getConversation(conversation.id),
    ...(await reader.get<ListPage<AppConversation>>('/api/v1/app-conversations/search')).items,
  ]
  expect(lists).toHaveLength(4)
  for (const item of lists) expect(item).toMatchObject({ session_api_key: null })
  expect(sandbox.session_api_key).toEqual(expect.any(String))
  const headers = { 'x-session-api-key': String(sandbox.session_api_key) }
  const path = '/api/v1/users/me?expose_secrets=true'
  expect((await reader.requestJson('GET', path, undefined, headers)).status).toBe(403)
  const exposed = await ann.requestJson('GET', path, undefined, headers)
  expect(exposed.status).toBe(200)
  expect(JSON.stringify(exposed.body)).toContain('the-key-of-the-model')
})

test('a key never outlives the key that created it', async () => {
  const soon = new Date(Date.now() + 3_600_000).toISOString()
  const maker = await createUserKey(server, ann.id, { expires_at: soon })
  const made = await maker.requestOrThrow<{ id: string; key: string; expires_at: string }>(
    'POST',
    '/api/keys',
    { scopes: ['read', 'write'] },
  )
  expect(Date.parse(made.expires_at)).toBe(Date.parse(soon))
  const child = new User(server, { id: ann.id, key: made.key })
  const later = new Date(Date.now() + 7_200_000).toISOString()
  const grandchild = await child.requestOrThrow<{ key: string; expires_at: string }>('POST', '/api/keys', {
    scopes: ['read'],
    expires_at: later,
  })
  expect(Date.parse(grandchild.expires_at)).toBe(Date.parse(soon))
  const makerId = (await maker.get<{ id: string }>('/api/keys/current')).id
  await ann.requestOrThrow('DELETE', `/api/keys/${makerId}`)
  for (const key of [maker.key, made.key, grandchild.key]) {
    const user = new User(server, { id: ann.id, key })
    expect((await user.requestJson('GET', '/api/v1/users/me')).status).toBe(401)
  }
  expect((await ann.requestJson('GET', '/api/v1/users/me')).status).toBe(200)
})

test('a key of an organisation sees no start tasks of others', async () => {
  const admin = administrator(server)
  const bea = await createUser(server)
  await bea.setModel(textModel)
  const keys: User[] = []
  for (const name of ['One', 'Other']) {
    const { id } = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', { name })
    await admin.requestOrThrow('PUT', `/api/admin/organizations/${id}/members/${bea.id}`)
    keys.push(await createUserKey(server, bea.id, { org_id: id }))
  }
  const base = '/api/v1/app-conversations/start-tasks'
  const [one, other] = keys
  if (one === undefined || other === undefined) throw new Error('two keys were made')
  const ofOne = (await one.startConversation({})).at(-1)
  const ofBea = (await bea.startConversation({})).at(-1)
  const listIds = async (user: User) =>
    (await user.listAll<{ id: string }>(`${base}/search`, 10)).map(({ id }) => id).toSorted()
  expect(await listIds(one)).toEqual([ofOne?.id])
  expect(await listIds(other)).toEqual([])
  expect(await listIds(bea)).toEqual([ofOne?.id, ofBea?.id].toSorted())
  expect(await other.get(`${base}/count`)).toBe(0)
  expect(await other.get(`${base}?ids=${ofOne?.id}&ids=${ofBea?.id}`)).toEqual([null, null])
  expect(await one.get(`${base}?ids=${ofOne?.id}&ids=${ofBea?.id}`)).toEqual([ofOne, null])
})

test('scopes hold behind the proxy: a key that may only read runs nothing in a sandbox', async () => {
  const path = `/sandboxes/${sandbox.id}`
  for (const user of [reader, ann]) {
    const run = await user.requestJson('POST', `${path}/agent/api/bash/execute_bash_command`, {
      command: 'id',
    })
    // The agent server accepts its own key alone.
    expect(run.status).toBe(401)
  }
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE'])
    expect((await reader.requestJson(method, `${path}/worker_1/x`)).status).toBe(403)
  const writer = await createUserKey(server, ann.id, { scopes: ['write'] })
  expect((await writer.requestJson('GET', `${path}/worker_1/x`)).status).toBe(403)
})

test('a key of an organisation neither lists nor revokes keys outside it', async () => {
  const admin = administrator(server)
  const { id: org } = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', {
    name: 'An organisation',
  })
  await admin.requestOrThrow('PUT', `/api/admin/organizations/${org}/members/${ann.id}`)
  const bound = await createUserKey(server, ann.id, { org_id: org })
  const all = await ann.get<{ id: string; org_id: string | null }[]>('/api/keys')
  const outside = all.find(({ org_id }) => org_id === null)
  expect(outside).toBeDefined()
  expect((await bound.get<{ org_id: string | null }[]>('/api/keys')).map(({ org_id }) => org_id)).toEqual([
    org,
  ])
  expect((await bound.requestJson('DELETE', `/api/keys/${outside?.id}`)).status).toBe(404)
  expect(await ann.get<unknown[]>('/api/keys')).toHaveLength(all.length)
})
