import { randomUUID } from 'node:crypto'
import { type Route, sandboxServerRoutes } from '@slipway/protocol'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  bodies,
  createResources,
  creatingRoutes,
  fillPath,
  identifyingOperations,
  identifyingQueries,
  message,
  type OwnedResources,
  operations,
  publicPaths,
  readAllResources,
  refusesKey,
  sandboxTags,
  unknownResources,
  withoutIds,
} from '../support/sandbox-server/tenants.ts'
import {
  type AppConversation,
  administrator,
  createUser,
  createUserKey,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  type User,
} from '../support/sandbox-server/user.ts'

/**
 * Who may read and do what. The table of routes is the OpenAPI document, so a new route is tested
 * automatically: each route treats an object of another user as unknown.
 */

let fixture: SandboxServerFixture
let server: SandboxServer
let ann: User
let bea: User
let annsResources: OwnedResources
beforeAll(async () => {
  fixture = await openSandboxServer()
  server = fixture.server
  ann = await createUser(server, { name: 'Ann' })
  bea = await createUser(server, { name: 'Bea' })
  annsResources = await createResources(server, ann)
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

test('every route treats an object of another user as unknown', async () => {
  const before = await readAllResources(ann, annsResources)
  expect(identifyingOperations.length).toBeGreaterThan(35)
  for (const operation of identifyingOperations) {
    const name = `${operation.method} ${operation.path}`
    const body = bodies[name]
    const absent = unknownResources()
    const [foreign, missing] = [
      await bea.requestJson(operation.method, fillPath(operation, annsResources), body),
      await bea.requestJson(operation.method, fillPath(operation, absent), body),
    ]
    expect([name, foreign.status, withoutIds(foreign.body, annsResources)]).toEqual([
      name,
      missing.status,
      withoutIds(missing.body, absent),
    ])
    // The ids are the only possible error of the request.
    expect([name, foreign.status]).not.toEqual([name, 422])
    if (operation.method !== 'GET' && operation.tag !== 'admin' && !creatingRoutes.includes(name))
      expect([name, [200, 404].includes(foreign.status)]).toEqual([name, true])
    expect(JSON.stringify(foreign.body)).not.toContain('value-of-mine')
  }
  expect(await readAllResources(ann, annsResources)).toEqual(before)
}, 60_000)

test('a start may only name objects of the caller', async () => {
  const base = '/api/v1/app-conversations'
  const before = await readAllResources(ann, annsResources)
  await bea.setModel(textModel)
  const startIn = async (path: string, sandbox_id: string) => {
    const { status, body } = await bea.requestJson('POST', path, { sandbox_id })
    return { status, text: JSON.stringify(body).replaceAll(sandbox_id, '*') }
  }
  for (const path of [base, `${base}/stream-start`]) {
    const foreign = await startIn(path, annsResources.sandbox)
    expect(foreign.status).toBe(422)
    expect(foreign).toEqual(await startIn(path, unknownResources().sandbox))
    const child = await bea.requestJson('POST', path, { parent_conversation_id: annsResources.conversation })
    expect(child.status).toBe(422)
    expect(
      await bea.requestJson('POST', path, { conversation_id: annsResources.conversation }),
    ).toMatchObject({
      status: 409,
    })
  }
  expect(await readAllResources(ann, annsResources)).toEqual(before)
})

describe('lists', () => {
  test('contain nothing of other users', async () => {
    for (const { path, tag } of operations.filter(({ method }) => method === 'GET')) {
      if (
        path.includes('{') ||
        tag === 'admin' ||
        `GET ${path}` in identifyingQueries ||
        publicPaths.includes(path)
      )
        continue
      const text = JSON.stringify((await bea.requestJson('GET', path)).body)
      for (const id of Object.values(annsResources))
        if (id.length > 10) expect([path, text]).not.toEqual([path, id])
      for (const id of [annsResources.sandbox, annsResources.conversation, annsResources.task, ann.id])
        expect([path, text.includes(id)]).toEqual([path, false])
    }
  })
})

test('a session key of one sandbox cannot write into the conversations of another', async () => {
  const before = await readAllResources(ann, annsResources)
  const { session_api_key } = await bea.startRunningSandbox()
  const headers = { 'x-session-api-key': String(session_api_key), 'content-type': 'application/json' }
  const post = async (path: string, body: unknown) =>
    (
      await fetch(`${server.url}/api/v1/webhooks/${path}`, {
        method: 'POST',
        headers,
        body: JSON.stringify(body),
      })
    ).status
  const event = { id: randomUUID(), timestamp: '2026-01-01T00:00:00Z', source: 'user', kind: 'PauseEvent' }
  const dashed = annsResources.conversation.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  for (const id of [annsResources.conversation, dashed]) {
    expect(await post(`events/${id}`, [event])).toBe(401)
    expect(await post('conversations', { id, title: 'Taken over', execution_status: 'idle' })).toBe(401)
  }
  // Keys of users are not keys of sandboxes, and vice versa.
  const asPerson = { authorization: `Bearer ${session_api_key}` }
  expect((await server.requestJson('GET', '/api/v1/users/me', undefined, { headers: asPerson })).status).toBe(
    401,
  )
  for (const key of [ann.key, server.key, 'x'])
    expect(
      (
        await fetch(`${server.url}/api/v1/webhooks/conversations`, {
          method: 'POST',
          headers: { 'x-session-api-key': key, 'content-type': 'application/json' },
          body: JSON.stringify({ id: annsResources.conversation }),
        })
      ).status,
    ).toBe(401)
  const secrets = `/api/v1/users/me?expose_secrets=true`
  expect((await ann.requestJson('GET', secrets)).status).toBe(401)
  const own = String((await ann.getSandbox(annsResources.sandbox))?.session_api_key)
  expect(
    (await ann.requestJson('GET', secrets, undefined, { 'x-session-api-key': String(session_api_key) }))
      .status,
  ).toBe(403)
  expect((await ann.requestJson('GET', secrets, undefined, { 'x-session-api-key': own })).status).toBe(200)
  expect(await readAllResources(ann, annsResources)).toEqual(before)
}, 60_000)

/** What is printed in a sandbox, and commands that were run there, need the scope `write` too. */
const lookingInside = /\/sandboxes\/\{sandbox_id\}\/(?:log|events)$/

const organizationRoutes = new Set(
  Object.values<Route>(sandboxServerRoutes).flatMap(({ access, method, path }) =>
    access === 'organization' ? [`${method} ${path}`] : [],
  ),
)

test('every route requires its scope, and admin routes an administrator', async () => {
  const admin = administrator(server)
  const [reader, writer, both, boss] = [
    await createUserKey(server, 'admin', { scopes: ['read'] }),
    await createUserKey(server, 'admin', { scopes: ['write'] }),
    await createUserKey(server, 'admin', { scopes: ['read', 'write'] }),
    await createUserKey(server, ann.id, { scopes: ['read', 'write', 'admin'] }),
  ]
  const absent = unknownResources()
  const before = await readAllResources(ann, annsResources)
  for (const operation of operations) {
    if (publicPaths.includes(operation.path)) continue
    const { method, path, tag } = operation
    const answer = async (user: User) =>
      await user.requestJson(method, fillPath(operation, absent), bodies[`${method} ${path}`])
    const ask = async (user: User) => (await answer(user)).status
    const isInside = sandboxTags.includes(tag)
    const refused = isInside ? 401 : 403
    // An organisation is unknown to those who are no members of it, and the list has their own.
    const ofMembers = path.includes('{') ? [403, 404] : [403, 200]
    const refusals = expect.toBeOneOf(organizationRoutes.has(`${method} ${path}`) ? ofMembers : [403])
    if (tag === 'admin')
      for (const user of [reader, writer, both, boss])
        expect({ method, path, status: await ask(user) }).toEqual({ method, path, status: refusals })
    else {
      const isReading = method === 'GET' && !lookingInside.test(path)
      expect([method, path, await ask(isReading ? writer : reader)]).toEqual([method, path, refused])
    }
    if (!isInside && method === 'GET') expect([path, refusesKey(await answer(admin))]).toEqual([path, false])
  }
  expect(await readAllResources(ann, annsResources)).toEqual(before)
}, 60_000)

test('a key works from its start to its expiry, and not after it is revoked or its user removed', async () => {
  const user = await createUser(server)
  const hour = 3_600_000
  const at = (ms: number) => new Date(Date.now() + ms).toISOString()
  const make = (request: object) => createUserKey(server, user.id, request)
  const status = async (one: User) => (await one.requestJson('GET', '/api/v1/users/me')).status
  expect(await status(await make({ not_before: at(hour) }))).toBe(401)
  expect(await status(await make({ expires_at: at(-hour) }))).toBe(401)
  const timed = await make({ not_before: at(-hour), expires_at: at(hour) })
  expect(await status(timed)).toBe(200)
  const { id } = await timed.get<{ id: string }>('/api/keys/current')
  await user.requestOrThrow('DELETE', `/api/keys/${id}`)
  expect(await status(timed)).toBe(401)
  const tooMuch = await user.requestJson('POST', '/api/keys', { scopes: ['admin'] })
  expect(tooMuch.status).toBe(403)
  const { key } = await user.requestOrThrow<{ key: string }>('POST', '/api/keys', { scopes: ['read'] })
  expect(JSON.stringify(await user.get('/api/keys'))).not.toContain(key)
  await administrator(server).requestOrThrow('DELETE', `/api/admin/users/${user.id}`)
  expect(await status(user)).toBe(401)
  expect(server.output()).not.toContain(key)
})

test('a user with work loses all keys and stays, until the work is deleted too', async () => {
  const admin = administrator(server)
  const user = await createUser(server)
  const resources = await createResources(server, user)
  const second = await createUserKey(server, user.id, { scopes: ['read'] })
  const path = `/api/admin/users/${user.id}`
  expect(await admin.requestJson('DELETE', path)).toMatchObject({
    status: 409,
    body: {
      detail: { code: 'user_has_sandboxes', sandboxes: [resources.sandbox], conversations: 1 },
    },
  })
  for (const each of [user, second]) expect((await each.requestJson('GET', '/api/keys')).status).toBe(401)
  const { items } = await admin.get<{ items: { id: string }[] }>(`/api/admin/sandboxes?user_id=${user.id}`)
  expect(items).toMatchObject([{ id: resources.sandbox, user_id: user.id, status: 'RUNNING' }])
  // The sandbox goes alone; its conversation stays and keeps the user.
  expect((await admin.requestJson('DELETE', `/api/admin/sandboxes/${resources.sandbox}`)).status).toBe(200)
  expect((await admin.requestJson('DELETE', `/api/admin/sandboxes/${resources.sandbox}`)).status).toBe(404)
  expect(await admin.requestJson('DELETE', path)).toMatchObject({
    status: 409,
    body: { detail: { sandboxes: [], conversations: 1 } },
  })
  const again = await createUserKey(server, user.id, { scopes: ['read', 'write'] })
  expect(
    (await again.requestJson('DELETE', `/api/v1/app-conversations/${resources.conversation}`)).status,
  ).toBe(200)
  expect((await admin.requestJson('DELETE', path)).status).toBe(200)
  expect((await admin.requestJson('DELETE', path)).status).toBe(404)

  const other = await createUser(server)
  const work = await createResources(server, other)
  expect((await admin.requestJson('DELETE', `/api/admin/users/${other.id}?with_sandboxes=true`)).status).toBe(
    200,
  )
  expect((await admin.get<{ items: [] }>(`/api/admin/sandboxes?user_id=${other.id}`)).items).toEqual([])
  const { items: audit } = await admin.get<{ items: object[] }>('/api/admin/audit?limit=20')
  expect(audit).toContainEqual(
    expect.objectContaining({
      route: '/api/admin/sandboxes/{sandbox_id}',
      sandbox: resources.sandbox,
      status: 200,
    }),
  )
  // Nothing of the work is left for a new user of the same id.
  expect(await ann.get(`/api/v1/sandboxes?id=${work.sandbox}`)).toEqual([null])
}, 60_000)

test('a key of one organisation gives no access to another, for the same user', async () => {
  const admin = administrator(server)
  const user = await createUser(server)
  const keys: User[] = []
  for (const name of ['One', 'Other']) {
    const { id } = await admin.requestOrThrow<{ id: string }>('POST', '/api/admin/organizations', { name })
    await admin.requestOrThrow('PUT', `/api/admin/organizations/${id}/members/${user.id}`)
    keys.push(await createUserKey(server, user.id, { org_id: id }))
  }
  const [one, other] = keys
  if (one === undefined || other === undefined) throw new Error('two keys were made')
  await one.setModel(textModel)
  const { id, sandbox_id } = await one.createConversation({ title: 'Of one' })
  expect(await other.getConversation(id)).toBeUndefined()
  expect(await other.getSandbox(sandbox_id)).toBeUndefined()
  expect(await other.listAll<AppConversation>('/api/v1/app-conversations/search', 10)).toEqual([])
  expect(await other.listAll('/api/v1/sandboxes/search', 10)).toEqual([])
  expect(await other.get(`/api/v1/conversation/${id}/events/count`)).toBe(0)
  for (const verb of ['pause', 'resume'])
    expect((await other.requestJson('POST', `/api/v1/sandboxes/${sandbox_id}/${verb}`)).status).toBe(404)
  expect((await other.requestJson('DELETE', `/api/v1/app-conversations/${id}`)).status).toBe(404)
  expect((await other.sendMessage(id, 'From elsewhere.')).status).toBe(404)
  const pending = await other.requestJson('POST', `/api/v1/conversations/${id}/pending-messages`, message)
  expect(pending.status).toBe(404)
  expect((await other.startConversation({ conversation_id: id }).catch(String)).toString()).toContain('409')
  expect((await one.getConversation(id))?.title).toBe('Of one')
  const tasks = await one.listAll<StartTask>('/api/v1/app-conversations/start-tasks/search', 10)
  expect(tasks.map(({ status }) => status)).toEqual(['READY'])
}, 60_000)
