import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import document from '../../openapi/sandbox-server.json' with { type: 'json' }
import type { SandboxServer } from '../support/sandbox-server/server.ts'
import {
  type AppConversation,
  administrator,
  eventually,
  makeUser,
  openPlace,
  type PageOf,
  type Place,
  type StartTask,
  talker,
  type User,
  withKey,
} from '../support/sandbox-server/user.ts'

/**
 * Who may see and do what. The table of routes is the OpenAPI document, so a route that is added is tested without anybody
 * thinking of it: what is somebody else's answers each of them as if it were not there.
 */

interface Operation {
  readonly method: string
  readonly path: string
  readonly tag: string
  readonly query: readonly string[]
}

const open = ['/alive', '/health', '/ready', '/server_info', '/api/v1/web-client/config']
const inside = ['webhooks', 'sandbox secrets']
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

/** What is asked with; bodies are such that nothing but the ids can be wrong about them. */
interface Things {
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
  'POST /api/v1/settings/profiles/{name}': { llm: talker },
  'PUT /api/admin/quota/orgs/{org_id}/quota': { daily_conversation_limit: 1 },
  'PUT /api/admin/quota/users/{user_id}/quota': { daily_conversation_limit: 1 },
  'PATCH /api/admin/users/{user_id}': { name: 'Taken over' },
}
/** Where the query is what names something. */
const named: Readonly<Record<string, (things: Things) => string>> = {
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
  // Specs are everybody's.
  'GET /api/v1/sandbox-specs': () => 'id=process',
  'GET /api/v1/app-conversations/{conversation_id}/files': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/changes': () => 'path=.',
  'GET /api/v1/app-conversations/{conversation_id}/git/diff': () => 'path=a',
}
/** Queries that name nothing of anybody. */
const harmless =
  /^(?:page_id|limit|sort_order|file_path|path|ref|(?:kind|source)(?:__eq)?|body|gzip|meta|(?:title|name)__contains|(?:timestamp|created_at|updated_at)__(?:gte|lt)|include_sub_conversations|expose_secrets|sandbox_spec_id)$/
/** Making a profile of one's own under any name is no trespass. */
const ownMaking = ['POST /api/v1/settings/profiles/{name}']

let place: Place
let server: SandboxServer
let ann: User
let bea: User
let things: Things
beforeAll(async () => {
  place = await openPlace()
  server = place.server
  ann = await makeUser(server, { name: 'Ann' })
  bea = await makeUser(server, { name: 'Bea' })
  things = await thingsOf(ann)
}, 90_000)
afterAll(async () => {
  await place?.[Symbol.asyncDispose]()
}, 120_000)

/** One of everything. */
async function thingsOf(user: User): Promise<Things> {
  await user.setModel(talker)
  const task = (await user.start({ title: 'Mine', initial_message: { content: 'Of mine.' } })).at(-1)
  expect(task?.status).toBe('READY')
  const conversation = String(task?.app_conversation_id)
  await eventually('the run is over', async () => {
    const path = `/api/v1/conversation/${conversation}/events/search?sort_order=TIMESTAMP_DESC&limit=1`
    const { items } = await user.get<PageOf<{ value?: string }>>(path)
    return items[0]?.value === 'finished' ? true : undefined
  })
  const page = await user.get<PageOf<{ id: string }>>(`/api/v1/conversation/${conversation}/events/search`)
  await user.must('POST', '/api/v1/secrets', { name: 'MINE', value: 'value-of-mine' })
  await user.must('POST', '/api/v1/settings/profiles/mine', { llm: talker })
  const [key] = await user.get<{ id: string }[]>('/api/keys')
  const { id: org } = await administrator(server).must<{ id: string }>('POST', '/api/admin/organizations', {
    name: 'An organisation',
  })
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

function unknown(): Things {
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

function filled({ path, method }: Operation, of: Things): string {
  const values: Readonly<Record<string, string>> = {
    sandbox_id: of.sandbox,
    conversation_id: of.conversation,
    target: of.conversation,
    key_id: of.key,
    user_id: of.user,
    org_id: of.org,
    name: path.includes('profiles') ? of.profile : of.secret,
  }
  const query = named[`${method} ${path}`]?.(of)
  const route = path.replaceAll(/\{(\w+)\}/g, (_, name) => values[name] ?? `no-value-for-${name}`)
  return query === undefined ? route : `${route}?${query}`
}

const naming = operations.filter(
  ({ method, path, tag, query }) =>
    !open.includes(path) &&
    !inside.includes(tag) &&
    (path.includes('{') || `${method} ${path}` in named || query.some((name) => !harmless.test(name))),
)

/** An answer without the ids that it was asked with. */
function anonymous(value: unknown, of: Things): string {
  return Object.values(of).reduce((text, id) => text.replaceAll(id, '*'), JSON.stringify(value))
}

/** What Ann has, in full. */
async function all(user: User): Promise<unknown> {
  const { sandbox, conversation, task } = things
  const [keys, info] = [await user.get<object[]>('/api/keys'), await user.conversation(conversation)]
  return {
    keys: keys.map((key) => ({ ...key, last_used_at: null })),
    // What its agent server says of it may be on its way still.
    info: { ...info, execution_status: null, metrics: null, updated_at: null },
    sandboxes: await user.walk('/api/v1/sandboxes/search', 100),
    sandbox: await user.sandbox(sandbox),
    tasks: await user.walk('/api/v1/app-conversations/start-tasks/search', 100),
    task: await user.get(`/api/v1/app-conversations/start-tasks?ids=${task}`),
    events: await user.walk(`/api/v1/conversation/${conversation}/events/search`, 100),
    secrets: await user.walk('/api/v1/secrets/search', 100),
    profiles: await user.get('/api/v1/settings/profiles'),
    settings: await user.get('/api/v1/settings'),
    me: await user.get('/api/v1/users/me'),
    quota: await user.get('/api/quota/status'),
  }
}

test('every route that names something treats what is another user’s as if it were not there', async () => {
  const before = await all(ann)
  expect(naming.length).toBeGreaterThan(35)
  for (const operation of naming) {
    const name = `${operation.method} ${operation.path}`
    const body = bodies[name]
    const absent = unknown()
    const [foreign, missing] = [
      await bea.call(operation.method, filled(operation, things), body),
      await bea.call(operation.method, filled(operation, absent), body),
    ]
    expect([name, foreign.status, anonymous(foreign.body, things)]).toEqual([
      name,
      missing.status,
      anonymous(missing.body, absent),
    ])
    // Nothing that could be wrong about the request but the ids.
    expect([name, foreign.status]).not.toEqual([name, 422])
    if (operation.method !== 'GET' && operation.tag !== 'admin' && !ownMaking.includes(name))
      expect([name, [200, 404].includes(foreign.status)]).toEqual([name, true])
    expect(JSON.stringify(foreign.body)).not.toContain('value-of-mine')
  }
  expect(await all(ann)).toEqual(before)
}, 60_000)

test('what a start names must be the caller’s own', async () => {
  const base = '/api/v1/app-conversations'
  const before = await all(ann)
  await bea.setModel(talker)
  const [foreign, missing] = [
    (await bea.start({ sandbox_id: things.sandbox })).at(-1),
    (await bea.start({ sandbox_id: unknown().sandbox })).at(-1),
  ]
  expect(foreign?.status).toBe('ERROR')
  expect(foreign?.detail?.replace(things.sandbox, '*')).toBe(missing?.detail?.replace(unknown().sandbox, '*'))
  for (const path of [base, `${base}/stream-start`]) {
    const child = await bea.call('POST', path, { parent_conversation_id: things.conversation })
    expect(child.status).toBe(422)
    expect(await bea.call('POST', path, { conversation_id: things.conversation })).toMatchObject({
      status: 409,
    })
  }
  expect(await all(ann)).toEqual(before)
})

describe('lists', () => {
  test('show nothing of others', async () => {
    for (const { path, tag } of operations.filter(({ method }) => method === 'GET')) {
      if (path.includes('{') || tag === 'admin' || `GET ${path}` in named || open.includes(path)) continue
      const text = JSON.stringify((await bea.call('GET', path)).body)
      for (const id of Object.values(things)) if (id.length > 10) expect([path, text]).not.toEqual([path, id])
      for (const id of [things.sandbox, things.conversation, things.task, ann.id])
        expect([path, text.includes(id)]).toEqual([path, false])
    }
  })
})

test('a session key of one sandbox writes nothing into the conversations of another', async () => {
  const before = await all(ann)
  const { session_api_key } = await bea.running()
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
  const dashed = things.conversation.replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
  for (const id of [things.conversation, dashed]) {
    expect(await post(`events/${id}`, [event])).toBe(401)
    expect(await post('conversations', { id, title: 'Taken over', execution_status: 'idle' })).toBe(401)
  }
  // Keys of people are none of sandboxes, and the other way round.
  const asPerson = { authorization: `Bearer ${session_api_key}` }
  expect((await server.call('GET', '/api/v1/users/me', undefined, { headers: asPerson })).status).toBe(401)
  for (const key of [ann.key, server.key, 'x'])
    expect(
      (
        await fetch(`${server.url}/api/v1/webhooks/conversations`, {
          method: 'POST',
          headers: { 'x-session-api-key': key, 'content-type': 'application/json' },
          body: JSON.stringify({ id: things.conversation }),
        })
      ).status,
    ).toBe(401)
  const secrets = `/api/v1/users/me?expose_secrets=true`
  expect((await ann.call('GET', secrets)).status).toBe(401)
  const own = String((await ann.sandbox(things.sandbox))?.session_api_key)
  expect(
    (await ann.call('GET', secrets, undefined, { 'x-session-api-key': String(session_api_key) })).status,
  ).toBe(403)
  expect((await ann.call('GET', secrets, undefined, { 'x-session-api-key': own })).status).toBe(200)
  expect(await all(ann)).toEqual(before)
}, 60_000)

test('every route asks for its scope, and those of administrators for an administrator', async () => {
  const admin = administrator(server)
  const [reader, writer, both, boss] = [
    await withKey(server, 'admin', { scopes: ['read'] }),
    await withKey(server, 'admin', { scopes: ['write'] }),
    await withKey(server, 'admin', { scopes: ['read', 'write'] }),
    await withKey(server, ann.id, { scopes: ['read', 'write', 'admin'] }),
  ]
  const absent = unknown()
  const before = await all(ann)
  for (const operation of operations) {
    if (open.includes(operation.path)) continue
    const { method, path, tag } = operation
    const ask = async (user: User) =>
      (await user.call(method, filled(operation, absent), bodies[`${method} ${path}`])).status
    const isInside = inside.includes(tag)
    const refused = isInside ? 401 : 403
    if (tag === 'admin')
      for (const user of [reader, writer, both, boss])
        expect([method, path, await ask(user)]).toEqual([method, path, 403])
    else
      expect([method, path, await ask(method === 'GET' ? writer : reader)]).toEqual([method, path, refused])
    if (!isInside && method === 'GET') expect([path, await ask(admin)]).not.toEqual([path, 403])
  }
  expect(await all(ann)).toEqual(before)
}, 60_000)

test('a key works from its first moment to its last, and not after it was revoked or its user removed', async () => {
  const user = await makeUser(server)
  const hour = 3_600_000
  const at = (ms: number) => new Date(Date.now() + ms).toISOString()
  const make = (request: object) => withKey(server, user.id, request)
  const status = async (one: User) => (await one.call('GET', '/api/v1/users/me')).status
  expect(await status(await make({ not_before: at(hour) }))).toBe(401)
  expect(await status(await make({ expires_at: at(-hour) }))).toBe(401)
  const kept = await make({ not_before: at(-hour), expires_at: at(hour) })
  expect(await status(kept)).toBe(200)
  const { id } = await kept.get<{ id: string }>('/api/keys/current')
  await user.must('DELETE', `/api/keys/${id}`)
  expect(await status(kept)).toBe(401)
  const tooMuch = await user.call('POST', '/api/keys', { scopes: ['admin'] })
  expect(tooMuch.status).toBe(403)
  const { key } = await user.must<{ key: string }>('POST', '/api/keys', { scopes: ['read'] })
  expect(JSON.stringify(await user.get('/api/keys'))).not.toContain(key)
  await administrator(server).must('DELETE', `/api/admin/users/${user.id}`)
  expect(await status(user)).toBe(401)
  expect(server.output()).not.toContain(key)
})

test('a key of one organisation sees nothing of another, for the same user', async () => {
  const admin = administrator(server)
  const user = await makeUser(server)
  const keys: User[] = []
  for (const name of ['One', 'Other']) {
    const { id } = await admin.must<{ id: string }>('POST', '/api/admin/organizations', { name })
    await admin.must('PUT', `/api/admin/organizations/${id}/members/${user.id}`)
    keys.push(await withKey(server, user.id, { org_id: id }))
  }
  const [one, other] = keys
  if (one === undefined || other === undefined) throw new Error('two keys were made')
  await one.setModel(talker)
  const { id, sandbox_id } = await one.ready({ title: 'Of one' })
  expect(await other.conversation(id)).toBeUndefined()
  expect(await other.sandbox(sandbox_id)).toBeUndefined()
  expect(await other.walk<AppConversation>('/api/v1/app-conversations/search', 10)).toEqual([])
  expect(await other.walk('/api/v1/sandboxes/search', 10)).toEqual([])
  expect(await other.get(`/api/v1/conversation/${id}/events/count`)).toBe(0)
  for (const verb of ['pause', 'resume'])
    expect((await other.call('POST', `/api/v1/sandboxes/${sandbox_id}/${verb}`)).status).toBe(404)
  expect((await other.call('DELETE', `/api/v1/app-conversations/${id}`)).status).toBe(404)
  expect((await other.send(id, 'From elsewhere.')).status).toBe(404)
  const pending = await other.call('POST', `/api/v1/conversations/${id}/pending-messages`, message)
  expect(pending.status).toBe(404)
  expect((await other.start({ conversation_id: id }).catch(String)).toString()).toContain('409')
  expect((await one.conversation(id))?.title).toBe('Of one')
  const tasks = await one.walk<StartTask>('/api/v1/app-conversations/start-tasks/search', 10)
  expect(tasks.map(({ status }) => status)).toEqual(['READY'])
}, 60_000)
