import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import document from '../../openapi/sandbox-server.json' with { type: 'json' }
import type { SandboxInfo, SandboxServer } from '../support/sandbox-server/server.ts'
import {
  administrator,
  createUser,
  type ListPage,
  lookUpSecret,
  openSandboxServer,
  type SandboxServerFixture,
  type User,
  waitFor,
} from '../support/sandbox-server/user.ts'

/** Sandboxes and their specs, from outside: the promises of their routes. */

const longTimeout = { timeout: 120_000 }
const specs = [
  { id: 'plain', env: { COLOUR: 'blue', API_TOKEN: 'tok-of-the-spec' } },
  { id: 'failing', command: ['/nothing/that/could/be/started'] },
]

let fixture: SandboxServerFixture
let server: SandboxServer
let user: User
beforeAll(async () => {
  fixture = await openSandboxServer({ env: { SLIPWAY_SANDBOX_SPECS: JSON.stringify(specs) } })
  server = fixture.server
  user = await createUser(server, { name: 'Ann' })
}, 60_000)
afterAll(async () => {
  await fixture?.[Symbol.asyncDispose]()
}, 120_000)

const routes = Object.entries(document.paths).flatMap(([path, item]) =>
  Object.keys(item).map((method) => ({ method: method.toUpperCase(), path })),
)
const publicPaths = [
  '/alive',
  '/health',
  '/ready',
  '/server_info',
  '/api/v1/web-client/config',
  '/console/session',
]

test('without a key, or with a wrong one, every route but the public ones is 401', longTimeout, async () => {
  expect(routes.length).toBeGreaterThan(60)
  for (const { method, path } of routes) {
    const filled = path.replaceAll(/\{\w+\}/g, '00000000000000000000000000000000')
    for (const headers of [{}, { authorization: 'Bearer sk-slipway-wrong' }, { 'x-session-api-key': 'x' }]) {
      const response = await fetch(`${server.url}${filled}`, { method, headers })
      const body = await response.text()
      const isSignIn = path === '/console/session' && method !== 'GET'
      const expected = isSignIn ? [401, 403, 422] : [publicPaths.includes(path) ? 200 : 401]
      expect(expected, `${method} ${path}`).toContain(response.status)
      if (response.status === 401) expect(Object.keys(JSON.parse(body))).toEqual(['detail'])
    }
  }
})

test('public routes reveal no user, no key and no sandbox', async () => {
  const sandbox = await user.startRunningSandbox()
  for (const path of [...publicPaths, '/openapi.json', '/docs']) {
    const response = await fetch(`${server.url}${path}`)
    expect(response.status).toBe(200)
    const text = await response.text()
    for (const hidden of [user.key, server.key, user.id, sandbox.id, String(sandbox.session_api_key)])
      expect(text).not.toContain(hidden)
  }
  expect(await (await fetch(`${server.url}/openapi.json`)).json()).toEqual(document)
  await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${sandbox.id}`)
}, 60_000)

describe('lists', () => {
  const none = '0'.repeat(32)
  test.each([
    '/api/v1/sandboxes/search',
    '/api/v1/sandbox-specs/search',
    '/api/v1/app-conversations',
    '/api/v1/app-conversations/search',
    '/api/v1/app-conversations/start-tasks/search',
    '/api/v1/secrets/search',
    `/api/v1/conversation/${none}/events/search`,
    `/api/v1/conversations/${none}/events/search`,
    '/api/admin/users',
    '/api/admin/sandboxes',
    '/api/admin/organizations',
  ])('%s accepts only a limit from 1 to 100', async (path) => {
    const caller = path.startsWith('/api/admin') ? administrator(server) : user
    for (const limit of ['1', '100']) {
      const page = await caller.get<ListPage<unknown>>(`${path}?limit=${limit}`)
      expect(Object.keys(page)).toEqual(['items', 'next_page_id'])
    }
    for (const limit of ['0', '-1', '101', '1.5', 'x', '', '1e1', '99999999999999999999']) {
      const { status, body } = await caller.requestJson('GET', `${path}?limit=${limit}`)
      expect([limit, status]).toEqual([limit, 422])
      expect(body).toMatchObject({ detail: [{ loc: ['query', 'limit'] }] })
    }
    expect((await caller.requestJson('GET', `${path}?page_id=`)).status).toBe(200)
    // An invented page id is refused or an empty page.
    const { status, body } = await caller.requestJson<ListPage<unknown>>(
      'GET',
      `${path}?page_id=%F0%9F%98%80`,
    )
    expect([200, 422]).toContain(status)
    if (status === 200) expect(body.items).toEqual([])
  })

  test('sandboxes are listed newest first, and a walk of single items stays complete while others are added and removed', async () => {
    const ann = await createUser(server)
    const ids: string[] = []
    for (let n = 0; n < 5; n++) ids.unshift((await ann.requestOrThrow<SandboxInfo>('POST', start)).id)
    const first = await ann.get<ListPage<SandboxInfo>>('/api/v1/sandboxes/search?limit=1')
    const newer = await ann.requestOrThrow<SandboxInfo>('POST', start)
    await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${ids[0]}`)
    const second = `/api/v1/sandboxes/search?limit=1&page_id=${encodeURIComponent(String(first.next_page_id))}`
    expect((await ann.get<ListPage<SandboxInfo>>(second)).items.map(({ id }) => id)).toEqual([ids[1]])
    const all = [newer.id, ...ids.slice(1)]
    for (const limit of [1, 2, 4, 5, 100]) {
      const walked = await ann.listAll<SandboxInfo>('/api/v1/sandboxes/search', limit)
      expect(walked.map(({ id }) => id)).toEqual(all)
    }
    for (const id of all) await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${id}`)
  }, 60_000)

  const start = '/api/v1/sandboxes?sandbox_spec_id=failing'
})

describe('many at once', () => {
  test.each([
    ['/api/v1/sandboxes', 'id', 'no-such-sandbox'],
    ['/api/v1/sandbox-specs', 'id', 'no-such-spec'],
    ['/api/v1/app-conversations', 'ids', '0'.repeat(32)],
    ['/api/v1/app-conversations/start-tasks', 'ids', '0'.repeat(32)],
    [`/api/v1/conversation/${'0'.repeat(32)}/events`, 'id', 'no-such-event'],
  ])('%s accepts 1 to 100 ids', async (path, name, unknown) => {
    const query = (count: number) => Array.from({ length: count }, () => `${name}=${unknown}`).join('&')
    for (const count of [1, 100]) {
      const found = await user.get(`${path}?${query(count)}`)
      expect(found).toEqual(Array.from({ length: count }, () => null))
    }
    const { status, body } = await user.requestJson('GET', `${path}?${query(101)}`)
    expect(status).toBe(422)
    expect(body).toMatchObject({ detail: [{ loc: ['query', name] }] })
  })

  test('sandboxes are returned in the requested order, also twice, with null for unknown ones', async () => {
    const a = await user.requestOrThrow<SandboxInfo>('POST', '/api/v1/sandboxes?sandbox_spec_id=failing')
    const b = await user.requestOrThrow<SandboxInfo>('POST', '/api/v1/sandboxes?sandbox_spec_id=failing')
    const path = `/api/v1/sandboxes?id=${b.id}&id=nobody&id=${a.id}&id=${b.id}&id=${encodeURIComponent('\u0000😀/..')}`
    const found = await user.get<(SandboxInfo | null)[]>(path)
    expect(found.map((one) => one?.id ?? null)).toEqual([b.id, null, a.id, b.id, null])
    for (const { id } of [a, b]) await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${id}`)
  })

  test('specs are returned in the requested order, the list begins with the default, and values of secrets are redacted', async () => {
    const { items } = await user.get<ListPage<Record<string, unknown>>>('/api/v1/sandbox-specs/search')
    expect(items.map(({ id, is_default }) => [id, is_default])).toEqual([
      ['plain', true],
      ['failing', false],
    ])
    expect(items[0]?.initial_env).toMatchObject({ COLOUR: 'blue' })
    expect(JSON.stringify(items)).not.toContain('tok-of-the-spec')
    const path = '/api/v1/sandbox-specs?id=failing&id=x&id=plain'
    expect(await user.get(path)).toEqual([items[1], null, items[0]])
    expect(await user.listAll('/api/v1/sandbox-specs/search', 1)).toEqual(items)
  })
})

describe('the life of a sandbox', () => {
  test('it starts, is paused and resumed repeatedly, and is deleted once', async () => {
    const info = await user.requestOrThrow<SandboxInfo>('POST', '/api/v1/sandboxes')
    expect(info).toMatchObject({ created_by_user_id: user.id, sandbox_spec_id: 'plain' })
    if (info.status === 'STARTING') expect(info.session_api_key).toBeNull()
    const path = `/api/v1/sandboxes/${info.id}`
    const running = await user.waitForSandbox(info.id, 'RUNNING')
    expect(running.session_api_key).toMatch(/^.{20,}$/)
    expect(running.exposed_urls).toContainEqual(expect.objectContaining({ name: 'AGENT_SERVER' }))
    for (let n = 0; n < 2; n++) {
      expect(await user.requestOrThrow('POST', `${path}/resume`)).toEqual({ success: true })
      expect((await user.getSandbox(info.id))?.status).toBe('RUNNING')
    }
    for (let round = 0; round < 2; round++) {
      for (let n = 0; n < 2; n++)
        expect(await user.requestOrThrow('POST', `${path}/pause`)).toEqual({ success: true })
      const paused = await user.getSandbox(info.id)
      expect(paused).toMatchObject({ status: 'PAUSED', session_api_key: null, exposed_urls: null })
      for (let n = 0; n < 2; n++)
        expect(await user.requestOrThrow('POST', `${path}/resume`)).toEqual({ success: true })
      const again = await user.waitForSandbox(info.id, 'RUNNING')
      expect(again).toEqual(running)
      expect(await agentServerStatus(again)).toBe(200)
    }
    const wrong = await user.requestJson('DELETE', `${path}?sandbox_id=another`)
    expect(wrong.status).toBe(422)
    expect((await user.getSandbox(info.id))?.status).toBe('RUNNING')
    expect(await user.requestOrThrow('DELETE', `${path}?sandbox_id=${info.id}`)).toEqual({ success: true })
    expect(await user.getSandbox(info.id)).toBeUndefined()
    for (const [method, verb] of [
      ['DELETE', ''],
      ['POST', '/pause'],
      ['POST', '/resume'],
    ] as const)
      expect((await user.requestJson(method, path + verb)).status).toBe(404)
    await server.waitUntilGone(info.id)
  }, 120_000)

  test('concurrent requests end in the state of the last one', longTimeout, async () => {
    const { id } = await user.startRunningSandbox()
    const path = `/api/v1/sandboxes/${id}`
    const verbs = Array.from({ length: 12 }, (_, n) => (n % 2 === 0 ? 'pause' : 'resume'))
    const answers = await Promise.all(verbs.map((verb) => user.requestJson('POST', `${path}/${verb}`)))
    for (const { status } of answers) expect([200, 409]).toContain(status)
    await user.requestOrThrow('POST', `${path}/resume`)
    await user.waitForSandbox(id, 'RUNNING')
    await user.requestOrThrow('POST', `${path}/pause`)
    expect((await user.getSandbox(id))?.status).toBe('PAUSED')
    const ends = await Promise.all([1, 2, 3].map(() => user.requestJson('DELETE', path)))
    expect(ends.map(({ status }) => status)).toContain(200)
    for (const { status } of ends) expect([200, 404]).toContain(status)
    await server.waitUntilGone(id)
  })

  test('an unknown spec is refused, a body is ignored, and many requests with one Idempotency-Key create one sandbox', async () => {
    const unknown = await user.requestJson('POST', '/api/v1/sandboxes?sandbox_spec_id=unknown')
    expect(unknown.status).toBe(422)
    expect(unknown.body).toMatchObject({ detail: [{ loc: ['query', 'sandbox_spec_id'] }] })
    const headers = { 'idempotency-key': 'once' }
    const path = '/api/v1/sandboxes?sandbox_spec_id=failing'
    const made = await Promise.all(
      [1, 2, 3, 4].map(() =>
        user.requestJson<SandboxInfo>('POST', path, { sandbox_spec_id: 'unknown' }, headers),
      ),
    )
    const [one] = made
    expect(new Set(made.map(({ status, body }) => `${status} ${body.id}`)).size).toBe(1)
    const other = await createUser(server)
    const theirs = await other.requestJson<SandboxInfo>('POST', path, undefined, headers)
    expect(theirs.body.id).not.toBe(one?.body.id)
    await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${one?.body.id}`)
    await other.requestOrThrow('DELETE', `/api/v1/sandboxes/${theirs.body.id}`)
  })

  test('a sandbox that cannot start is ERROR with the reason; pause is refused, resume retries, delete works', async () => {
    const { id } = await user.requestOrThrow<SandboxInfo>('POST', '/api/v1/sandboxes?sandbox_spec_id=failing')
    const failed = await user.waitForSandbox(id, 'ERROR')
    expect(failed).toMatchObject({ session_api_key: null, exposed_urls: null })
    expect(String(failed.status_detail).length).toBeGreaterThan(10)
    expect(failed.status_detail).not.toContain('tok-of-the-spec')
    const path = `/api/v1/sandboxes/${id}`
    expect((await user.requestJson('POST', `${path}/pause`)).status).toBe(409)
    expect((await user.requestJson('POST', `${path}/resume`)).status).toBe(200)
    await user.waitForSandbox(id, 'ERROR')
    await user.requestOrThrow('DELETE', path)
    await server.waitUntilGone(id)
  }, 60_000)
})

test('secrets can be read with the session key of a running sandbox of their owner, and with no other', async () => {
  const ann = await createUser(server)
  await ann.requestOrThrow('POST', '/api/v1/secrets', {
    name: 'NPM',
    value: 'npm-value-é\n',
    description: 'For npm',
  })
  const providers = { provider_tokens: { github: { token: 'ghp-of-ann' } } }
  await ann.requestOrThrow('POST', '/api/v1/secrets/git-providers', providers)
  const [mine, other] = [await ann.startRunningSandbox(), await user.startRunningSandbox()]
  const ask = (id: string, name: string, headers: Record<string, string>) =>
    lookUpSecret(server, id, name, headers)
  const key = { 'x-session-api-key': String(mine.session_api_key) }
  const list = await ask(mine.id, '', key)
  expect(JSON.parse(list.text)).toEqual({
    secrets: [
      { name: 'NPM', description: 'For npm' },
      { name: 'github_token', description: expect.any(String) },
    ],
  })
  expect(await ask(mine.id, 'NPM', key)).toEqual({ status: 200, text: 'npm-value-é\n' })
  expect(await ask(mine.id, 'github_token', key)).toEqual({ status: 200, text: 'ghp-of-ann' })
  for (const name of ['npm', 'gitlab_token', '__proto__', 'constructor', 'toString'])
    expect((await ask(mine.id, name, key)).status).toBe(404)
  expect((await ask(other.id, 'NPM', key)).status).toBe(403)
  const theirs = { 'x-session-api-key': String(other.session_api_key) }
  expect((await ask(mine.id, 'NPM', theirs)).status).toBe(403)
  expect((await ask(other.id, 'NPM', theirs)).status).toBe(404)
  expect((await ask(mine.id, 'NPM', { authorization: `Bearer ${ann.key}` })).status).toBe(401)
  await ann.requestOrThrow('POST', `/api/v1/sandboxes/${mine.id}/pause`)
  expect((await ask(mine.id, 'NPM', key)).status).toBe(401)
  await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${mine.id}`)
  expect((await ask(mine.id, 'NPM', key)).status).toBe(401)
  await user.requestOrThrow('DELETE', `/api/v1/sandboxes/${other.id}`)
  expect(server.output()).not.toContain('npm-value')
}, 120_000)

test(
  'at the limit of running sandboxes one more is refused, and a paused one does not count',
  longTimeout,
  async () => {
    await using small = await openSandboxServer({ env: { SLIPWAY_MAX_SANDBOXES: '1' } })
    const ann = await createUser(small.server)
    const first = await ann.startRunningSandbox()
    const refused = await ann.requestJson('POST', '/api/v1/sandboxes')
    expect(refused.status).toBe(429)
    expect((await ann.listAll('/api/v1/sandboxes/search', 100)).length).toBe(1)
    const bea = await createUser(small.server)
    const theirs = await bea.startRunningSandbox()
    await ann.requestOrThrow('POST', `/api/v1/sandboxes/${first.id}/pause`)
    const second = await ann.startRunningSandbox()
    expect((await ann.requestJson('POST', `/api/v1/sandboxes/${first.id}/resume`)).status).toBe(429)
    await ann.requestOrThrow('DELETE', `/api/v1/sandboxes/${second.id}`)
    // A sandbox that is being removed may count until it is gone.
    await waitFor('there is room again', async () =>
      (await ann.requestJson('POST', `/api/v1/sandboxes/${first.id}/resume`)).status === 200
        ? true
        : undefined,
    )
    await ann.waitForSandbox(first.id, 'RUNNING')
    expect((await bea.getSandbox(theirs.id))?.status).toBe('RUNNING')
  },
)

async function agentServerStatus(sandbox: SandboxInfo): Promise<number> {
  const url = sandbox.exposed_urls?.find(({ name }) => name === 'AGENT_SERVER')?.url
  const headers = { 'x-session-api-key': String(sandbox.session_api_key) }
  return (await fetch(`${url}/api/conversations/count`, { headers })).status
}
