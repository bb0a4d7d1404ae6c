import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import document from '../../openapi/sandbox-server.json' with { type: 'json' }
import type { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  type AppConversation,
  administrator,
  createUser,
  createUserKey,
  type ListPage,
  openSandboxServer,
  type SandboxServerFixture,
  type StartTask,
  textModel,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/**
 * Who may read and do what. The table of routes is the OpenAPI document, so a new route is tested
 * automatically: each route treats an object of another user as unknown.
 */

interface Operation {
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly query: readonly string[]
}

const publicPaths = ['/alive', '/health', '/ready', '/server_info', '/api/v1/web-client/config']
const sandboxTags = ['webhooks', 'sandbox secrets']
const operations: readonly Operation[] = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.entries(item).map(([method, about]: [string, { tags: string[]; parameters?: Parameter[] }]) => ({
    method: method.toUpperCase(),
    path,
    tag: String(about.tags[0]),
    query: (about.parameters ?? []).filter((one) => one.in === 'query').map(({ name }) => name),
  })),
)
interface Parameter {
  readonly in: string
  readonly name: string
}

/** Requests whose only possible error is an id. */
interface OwnedResources {
  readonly sandbox: string
  readonly conversation: string
  readonly task: string
  readonly event: string
  readonly key: string
  readonly secret: string
  readonly profile: string
  readonly user: string
  readonly org: string
}

const message = { content: [{ type: 'text', text: 'Of somebody else.' }] }
const bodies: Readonly<Record<string, object>> = {
  'PATCH /api/v1/app-conversations/{conversation_id}': { title: 'Taken over' },
  'POST /api/v1/app-conversations/{conversation_id}/send-message': message,
  'POST /api/v1/app-conversations/{conversation_id}/switch_profile': { profile_name: 'of-nobody' },
  'POST /api/v1/conversations/{target}/pending-messages': message,
  'PUT /api/v1/secrets/{name}': { name: 'TAKEN_OVER' },
  'POST /api/v1/settings/profiles/{name}/rename': { new_name: 'taken-over' },
  'POST /api/v1/settings/profiles/{name}': { llm: textModel },
  'PUT /api/admin/quota/orgs/{org_id}/quota': { daily_conversation_limit: 1 },
  'PUT /api/admin/quota/users/{user_id}/quota': { daily_conversation_limit: 1 },
  'PATCH /api/admin/users/{user_id}': { name: 'Taken over' },
}
/** Routes whose query names an object. */
const identifyingQueries: Readonly<Record<string, (things: OwnedResources) => string>> = {
  'GET /api/v1/sandboxes': ({ sandbox }) => `id=${sandbox}`,
  'GET /api/v1/app-conversations': ({ conversation }) => `ids=${conversation}`,
  'GET /api/v1/app-conversations/start-tasks': ({ task }) => `ids=${task}`,
  'GET /api/v1/app-conversations/search': ({ sandbox }) => `sandbox_id__eq=${sandbox}`,
  'GET /api/v1/app-conversations/count': ({ sandbox }) => `sandbox_id__eq=${sandbox}`,
  'GET /api/v1/app-conversations/start-tasks/search': ({ conversation }) =>
    `conversation_id__eq=${conversation}`,
  'GET /api/v1/app-conversations/start-tasks/count': ({ conversation }) =>
    `conversation_id__eq=${conversation}`,
  'GET /api/v1/conversation/{conversation_id}/events': ({ event }) => `id=${event}`,
  // Specs are public.
  'GET /api/v1/sandbox-specs': () => 'id=process',
  'GET /api/v1/app-conversations/{conversation_id}/files': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/changes': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/diff': () => 'path=a',
}
/** Queries that name no object of a user. */
const harmlessQueryNames =
  /^(?:page_id|limit|sort_order|file_path|path|ref|(?:kind|source)(?:__eq)?|body|gzip|meta|(?:title|name)__contains|(?:timestamp|created_at|updated_at)__(?:gte|lt)|include_sub_conversations|expose_secrets|sandbox_spec_id)$/
/** A user may create a profile of any name. */
const creatingRoutes = ['POST /api/v1/settings/profiles/{name}']

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
  annsResources = await createResources(ann)
}, 90_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

/** Creates one object of each kind. */
async function createResources(user: User): Promise<OwnedResources> {
  await user.setModel(textModel)
  const task = (await user.startConversation({ title: 'Mine', initial_message: { content: 'Of mine.' } })).at(
    -1,
  )
  expect(task?.status).toBe('READY')
  const conversation = String(task?.app_conversation_id)
  await waitFor('the run is over', async () => {
    const path = `/api/v1/conversation/${conversation}/events/search?sort_order=TIMESTAMP_DESC&limit=1`
    const { items } = await user.get<ListPage<{ value?: string }>>(path)
    return items[0]?.value === 'finished' ? true : undefined
  })
  const page = await user.get<ListPage<{ id: string }>>(`/api/v1/conversation/${conversation}/events/search`)
  await user.requestOrThrow('POST', '/api/v1/secrets', { name: 'MINE', value: 'value-of-mine' })
  await user.requestOrThrow('POST', '/api/v1/settings/profiles/mine', { llm: textModel })
  const [key] = await user.get<{ id: string }[]>('/api/keys')
  const { id: org } = await administrator(server).requestOrThrow<{ id: string }>(
    'POST',
    '/api/admin/organizations',
    {
      name: 'An organisation',
    },
  )
  return {
    sandbox: String(task?.sandbox_id),
    conversation,
    task: String(task?.id),
    event: String(page.items[0]?.id),
    key: String(key?.id),
    secret: 'MINE',
    profile: 'mine',
    user: user.id,
    org,
  }
}

function unknownResources(): OwnedResources {
  return {
    sandbox: 'sb-000000000000000000000000',
    conversation: randomUUID().replaceAll('-', ''),
    task: randomUUID().replaceAll('-', ''),
    event: randomUUID(),
    key: randomUUID(),
    secret: 'NOT_THERE',
    profile: 'not-there',
    user: randomUUID(),
    org: randomUUID(),
  }
}

function fillPath({ path, method }: Operation, resources: OwnedResources): string {
  const values: Readonly<Record<string, string>> = {
    sandbox_id: resources.sandbox,
    conversation_id: resources.conversation,
    target: resources.conversation,
    key_id: resources.key,
    user_id: resources.user,
    org_id: resources.org,
    name: path.includes('profiles') ? resources.profile : resources.secret,
  }
  const query = identifyingQueries[`${method} ${path}`]?.(resources)
  const route = path.replaceAll(/\{(\w+)\}/g, (_, name) => values[name] ?? `no-value-for-${name}`)
  return query === undefined ? route : `${route}?${query}`
}

const identifyingOperations = operations.filter(
  ({ method, path, tag, query }) =>
    !publicPaths.includes(path) &&
    !sandboxTags.includes(tag) &&
    (path.includes('{') ||
      `${method} ${path}` in identifyingQueries ||
      query.some((name) => !harmlessQueryNames.test(name))),
)

/** A reply without the ids of its request. */
function withoutIds(value: unknown, resources: OwnedResources): string {
  return Object.values(resources).reduce((text, id) => text.replaceAll(id, '*'), JSON.stringify(value))
}

/** All objects of Ann. */
async function readAllResources(user: User): Promise<unknown> {
  const { sandbox, conversation, task } = annsResources
  const [keys, info] = [await user.get<object[]>('/api/keys'), await user.getConversation(conversation)]
  return {
    keys: keys.map((key) => ({ ...key, last_used_at: null })),
    // A report of its agent server may still be under way.
    info: { ...info, execution_status: null, metrics: null, updated_at: null },
    sandboxes: await user.listAll('/api/v1/sandboxes/search', 100),
    sandbox: await user.getSandbox(sandbox),
    tasks: await user.listAll('/api/v1/app-conversations/start-tasks/search', 100),
    task: await user.get(`/api/v1/app-conversations/start-tasks?ids=${task}`),
    events: await user.listAll(`/api/v1/conversation/${conversation}/events/search`, 100),
    secrets: await user.listAll('/api/v1/secrets/search', 100),
    profiles: await user.get('/api/v1/settings/profiles'),
    settings: await user.get('/api/v1/settings'),
    me: await user.get('/api/v1/users/me'),
    quota: await user.get('/api/quota/status'),
  }
}

test('every route treats an object of another user as unknown', async () => {
  const before = await readAllResources(ann)
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
  expect(await readAllResources(ann)).toEqual(before)
}, 60_000)

test('a start may only name objects of the caller', async () => {
  const base = '/api/v1/app-conversations'
  const before = await readAllResources(ann)
  await bea.setModel(textModel)
  const [foreign, missing] = [
    (await bea.startConversation({ sandbox_id: annsResources.sandbox })).at(-1),
    (await bea.startConversation({ sandbox_id: unknownResources().sandbox })).at(-1),
  ]
  expect(foreign?.status).toBe('ERROR')
  expect(foreign?.detail?.replace(annsResources.sandbox, '*')).toBe(
    missing?.detail?.replace(unknownResources().sandbox, '*'),
  )
  for (const path of [base, `${base}/stream-start`]) {
    const child = await bea.requestJson('POST', path, { parent_conversation_id: annsResources.conversation })
    expect(child.status).toBe(422)
    expect(
      await bea.requestJson('POST', path, { conversation_id: annsResources.conversation }),
    ).toMatchObject({
      status: 409,
    })
  }
  expect(await readAllResources(ann)).toEqual(before)
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
  const before = await readAllResources(ann)
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
  expect(await readAllResources(ann)).toEqual(before)
}, 60_000)

test('every route requires its scope, and admin routes an administrator', async () => {
  const admin = administrator(server)
  const [reader, writer, both, boss] = [
    await createUserKey(server, 'admin', { scopes: ['read'] }),
    await createUserKey(server, 'admin', { scopes: ['write'] }),
    await createUserKey(server, 'admin', { scopes: ['read', 'write'] }),
    await createUserKey(server, ann.id, { scopes: ['read', 'write', 'admin'] }),
  ]
  const absent = unknownResources()
  const before = await readAllResources(ann)
  for (const operation of operations) {
    if (publicPaths.includes(operation.path)) continue
    const { method, path, tag } = operation
    const ask = async (user: User) =>
      (await user.requestJson(method, fillPath(operation, absent), bodies[`${method} ${path}`])).status
    const isInside = sandboxTags.includes(tag)
    const refused = isInside ? 401 : 403
    if (tag === 'admin')
      for (const user of [reader, writer, both, boss])
        expect([method, path, await ask(user)]).toEqual([method, path, 403])
    else
      expect([method, path, await ask(method === 'GET' ? writer : reader)]).toEqual([method, path, refused])
    if (!isInside && method === 'GET') expect([path, await ask(admin)]).not.toEqual([path, 403])
  }
  expect(await readAllResources(ann)).toEqual(before)
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
