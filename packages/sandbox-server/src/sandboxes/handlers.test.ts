import { request } from 'node:http'
import { createApp, listen } from '@slipway/http'
import { sandboxServerRoutes } from '@slipway/protocol'
import { expect, onTestFinished, test } from 'vitest'
import { issueApiKey } from '../auth/api-keys.ts'
import { Authenticator, keyHeaders } from '../auth/authenticator.ts'
import { sandboxProxyRoute } from '../network/sandbox-proxy.ts'
import { sandboxHandlers } from './handlers.ts'
import type { SandboxesOptions } from './state/context.ts'
import { createFixture, createSpecs, eventually, waitForFirstLook } from './testing/sandboxes-fixture.ts'

const specs = [{ env: { API_TOKEN: 'canary-spec' } }, {}]

function only<T extends object, K extends keyof T>(table: T, names: readonly K[]): Pick<T, K> {
  return Object.fromEntries(names.map((name) => [name, table[name]])) as Pick<T, K>
}

/** A server of the sandbox routes and the proxy, with two users and a key of each. */
async function server(options: Partial<SandboxesOptions> = {}) {
  const at = await createFixture(specs)
  const sandboxes = await at.open(options)
  const now = () => Date.now() * 1000
  const keys: Record<string, string> = {}
  for (const id of ['ann', 'bob']) {
    const more = { org: null, is_admin: false, daily_conversation_limit: null, created_at: 0 }
    await at.controlPlane.users.addUser({ id, name: id, email: null, ...more })
    keys[id] = (await issueApiKey(at.controlPlane.users, id, { scopes: ['read', 'write'] }, now())).key
  }
  const callers = new Authenticator({ users: at.controlPlane.users, sandboxes, keys: [], now })
  const handlers = sandboxHandlers({
    sandboxes,
    specs: createSpecs(specs),
    lookupSecrets: { grantAll: async () => {} },
  })
  const names = Object.keys(handlers) as (keyof typeof handlers)[]
  const errors: string[] = []
  const web = createApp(only(sandboxServerRoutes, names), handlers, {
    openapi: {},
    identify: callers.authenticate.bind(callers),
    proxyRoutes: [
      sandboxProxyRoute({ sandboxes, authenticateCaller: (header) => callers.authenticateCaller(header) }),
    ],
    log: (level, message, members) =>
      level === 'error' && errors.push(`${message} ${JSON.stringify(members)}`),
  })
  const listening = await listen(web, { host: '127.0.0.1', port: 0, stopMs: 200 })
  onTestFinished(async () => {
    await listening.close()
    expect(errors).toEqual([])
  })
  const call = async (
    who: string | undefined,
    method: string,
    path: string,
    headers: Record<string, string> = {},
  ) => {
    const auth: Record<string, string> = who === undefined ? {} : { authorization: `Bearer ${keys[who]}` }
    const response = await fetch(`${listening.url}${path}`, { method, headers: { ...auth, ...headers } })
    const text = await response.text()
    return { status: response.status, body: text === '' ? undefined : JSON.parse(text), text }
  }
  const start = async (who: string) => {
    const { body } = await call(who, 'POST', '/api/v1/sandboxes')
    await eventually(async () => {
      const { body: found } = await call(who, 'GET', `/api/v1/sandboxes?id=${body.id}`)
      expect(found[0].status).toBe('RUNNING')
    })
    await waitForFirstLook(at.backend, body.id)
    return (await call(who, 'GET', `/api/v1/sandboxes?id=${body.id}`)).body[0]
  }
  return { ...at, sandboxes, call, start, keys, url: listening.url, port: listening.port }
}

test('a sandbox is started, listed, paused, resumed and deleted by its owner, and missing for others', async () => {
  const { call, start } = await server()
  const info = await start('ann')
  expect(info).toMatchObject({ created_by_user_id: 'ann', sandbox_spec_id: 'spec-0', status_detail: null })
  expect(info.session_api_key).toMatch(/^sk-slipway-/)
  const path = `/api/v1/sandboxes/${info.id}`
  expect((await call('bob', 'GET', `/api/v1/sandboxes?id=${info.id}&id=nope`)).body).toEqual([null, null])
  for (const verb of ['pause', 'resume'])
    expect((await call('bob', 'POST', `${path}/${verb}`)).status).toBe(404)
  expect((await call('bob', 'DELETE', path)).status).toBe(404)
  expect((await call('bob', 'GET', '/api/v1/sandboxes/search')).body).toEqual({
    items: [],
    next_page_id: null,
  })
  expect((await call(undefined, 'GET', '/api/v1/sandboxes/search')).status).toBe(401)
  for (const verb of ['pause', 'pause', 'resume', 'resume'])
    expect(await call('ann', 'POST', `${path}/${verb}`)).toMatchObject({
      status: 200,
      body: { success: true },
    })
  expect((await call('ann', 'DELETE', `${path}?sandbox_id=other`)).status).toBe(422)
  expect((await call('ann', 'DELETE', `${path}?sandbox_id=${info.id}`)).body).toEqual({ success: true })
  expect((await call('ann', 'DELETE', path)).status).toBe(404)
  expect((await call('ann', 'GET', `/api/v1/sandboxes?id=${info.id}`)).body).toEqual([null])
})

test('a resume says that nothing is left, that it was archived, or how its backend failed', async () => {
  const { call, start, backend } = await server({ hasAllEvents: async () => true })
  const [info, other] = [await start('ann'), await start('ann')]
  const path = `/api/v1/sandboxes/${info.id}`
  await call('ann', 'POST', `${path}/pause`)
  backend.before = (verb) => {
    if (verb === 'resume') throw new Error('the engine is down')
  }
  const failed = await call('ann', 'POST', `${path}/resume`)
  expect(failed).toMatchObject({
    status: 502,
    body: { detail: expect.stringContaining('the engine is down') },
  })
  backend.before = () => {}
  expect((await call('ann', 'POST', `${path}/resume`)).status).toBe(200)
  expect((await call('bob', 'POST', `${path}/archive`)).status).toBe(404)
  await eventually(async () => expect((await call('ann', 'POST', `${path}/archive`)).status).toBe(200))
  const refusal = { code: 'runtime_not_resumable', current_status: 'MISSING' }
  expect(await call('ann', 'POST', `${path}/resume`)).toMatchObject({
    status: 409,
    body: { detail: { ...refusal, message: expect.stringContaining('archived') } },
  })
  backend.vanish(other.id)
  await eventually(async () =>
    expect(await call('ann', 'POST', `/api/v1/sandboxes/${other.id}/resume`)).toMatchObject({
      status: 409,
      body: { detail: refusal },
    }),
  )
})

test('pages of sandboxes contain all of them, and invalid limits are refused', async () => {
  const { call } = await server()
  const ids: string[] = []
  for (let i = 0; i < 5; i++) ids.push((await call('ann', 'POST', '/api/v1/sandboxes')).body.id)
  const walked: string[] = []
  let next: string | null = ''
  while (next !== null) {
    const { body } = await call('ann', 'GET', `/api/v1/sandboxes/search?limit=2&page_id=${next}`)
    walked.push(...body.items.map(({ id }: { id: string }) => id))
    next = body.next_page_id
  }
  expect(walked).toEqual(ids.reverse())
  for (const limit of ['0', '101', 'x']) {
    expect((await call('ann', 'GET', `/api/v1/sandboxes/search?limit=${limit}`)).status).toBe(422)
  }
  expect((await call('ann', 'GET', '/api/v1/sandboxes/search?page_id=%F0%9F%98%80')).status).toBe(422)
  expect((await call('ann', 'POST', '/api/v1/sandboxes?sandbox_spec_id=nope')).status).toBe(422)
})

test('a repeated Idempotency-Key returns the same sandbox', async () => {
  const { call } = await server()
  const headers = { 'idempotency-key': 'once' }
  const starts = [1, 2, 3].map(() => call('ann', 'POST', '/api/v1/sandboxes', headers))
  const ids = (await Promise.all(starts)).map(({ body }) => body.id)
  expect(new Set(ids).size).toBe(1)
})

test('at the limit of sandboxes the answer has the limit', async () => {
  const { call } = await server({ maxSandboxes: 1, maxSandboxesPolicy: 'refuse' })
  await call('ann', 'POST', '/api/v1/sandboxes')
  const { status, body } = await call('ann', 'POST', '/api/v1/sandboxes')
  expect(status).toBe(429)
  expect(body.detail).toMatchObject({ error: 'CONCURRENCY_LIMIT_REACHED', limit: 1, current: 1 })
  expect(body.detail.message).toEqual(expect.any(String))
})

test('specs are listed with the default first and without secrets', async () => {
  const { call } = await server()
  const { body, text } = await call('ann', 'GET', '/api/v1/sandbox-specs/search?limit=1')
  expect(body.items).toHaveLength(1)
  expect(body.items[0]).toMatchObject({
    id: 'spec-0',
    is_default: true,
    initial_env: { API_TOKEN: '**********' },
  })
  expect(text).not.toContain('canary')
  const { body: batch } = await call('ann', 'GET', '/api/v1/sandbox-specs?id=spec-1&id=nope')
  expect(batch.map((one: { id: string } | null) => one?.id ?? null)).toEqual(['spec-1', null])
  const next = await call('ann', 'GET', `/api/v1/sandbox-specs/search?limit=1&page_id=${body.next_page_id}`)
  expect(next.body).toMatchObject({ items: [{ id: 'spec-1' }], next_page_id: null })
})

test('the proxy passes the key of the sandbox to its agent server, and no key of this server', async () => {
  const { call, start, backend, keys } = await server({
    expose: 'relay',
    publicUrl: () => 'https://slipway.example/base',
  })
  const info = await start('ann')
  expect(info.exposed_urls[0]).toEqual({
    name: 'AGENT_SERVER',
    url: `https://slipway.example/base/sandboxes/${info.id}/agent`,
    port: 443,
  })
  const path = `/sandboxes/${info.id}/agent/api/conversations/count?status=running`
  const key = { 'x-session-api-key': info.session_api_key }
  expect(await call(undefined, 'GET', path, key)).toMatchObject({ status: 200, body: 0 })
  expect((await call(undefined, 'GET', path)).status).toBe(401)
  const agent = backend.agent(info.id)
  const seen: Record<string, unknown>[] = []
  agent.onRequest = ({ headers }) => seen.push(headers)
  const cookie = `api_key=${keys.ann}; theme=dark`
  for (const name of keyHeaders) await call('ann', 'GET', path, { [name]: String(keys.ann), cookie })
  await call('ann', 'GET', path, { ...key, cookie: `api_key=${keys.ann}` })
  expect(JSON.stringify(seen)).not.toContain(keys.ann)
  expect(seen[0]).toMatchObject({ cookie: 'theme=dark' })
  expect(seen.at(-1)).toMatchObject(key)
  expect(seen.at(-1)).not.toHaveProperty('cookie')
})

test('a worker needs a key of the owner or the sandbox, and does not receive it', async () => {
  const { call, start, backend, keys } = await server()
  const info = await start('ann')
  const seen: Record<string, unknown>[] = []
  backend.agent(info.id).onRequest = ({ headers }) => seen.push(headers)
  const path = `/sandboxes/${info.id}/worker_1/alive`
  expect((await call(undefined, 'GET', path)).status).toBe(401)
  expect((await call('bob', 'GET', path)).status).toBe(404)
  expect(seen).toEqual([])
  expect((await call('ann', 'GET', path)).status).toBe(200)
  for (const name of keyHeaders)
    expect((await call(undefined, 'GET', path, { [name]: String(keys.ann) })).status).toBe(200)
  expect((await call(undefined, 'GET', path, { 'x-session-api-key': info.session_api_key })).status).toBe(200)
  expect(JSON.stringify(seen)).not.toContain(keys.ann)
  expect(JSON.stringify(seen)).not.toContain(info.session_api_key)
  expect((await call('ann', 'GET', `/sandboxes/${info.id}/worker_2/`)).status).toBe(404)
})

test('with a key of somebody else a sandbox is as unknown to the proxy as one that does not exist', async () => {
  const { call, start, backend, sandboxes } = await server()
  const [info, other] = [await start('ann'), await start('bob')]
  const keys: readonly (readonly [who: string | undefined, headers: Record<string, string>])[] = [
    ['bob', {}],
    [undefined, { 'x-session-api-key': other.session_api_key }],
    [undefined, { authorization: `Bearer ${other.session_api_key}` }],
    ['bob', { 'x-session-api-key': other.session_api_key }],
  ]
  const [row] = await sandboxes.find([info.id])
  const expectHidden = async () => {
    for (const name of ['agent', 'worker_1', 'worker_2'])
      for (const [who, headers] of keys)
        for (const method of ['GET', 'POST', 'DELETE']) {
          const foreign = await call(who, method, `/sandboxes/${info.id}/${name}/alive`, headers)
          const absent = await call(who, method, `/sandboxes/sb-unknown/${name}/alive`, headers)
          expect([name, method, foreign.status, foreign.text]).toEqual([
            name,
            method,
            absent.status,
            absent.text,
          ])
          expect([404, 401]).toContain(foreign.status)
        }
  }
  backend.agent(info.id).requests.length = 0
  await expectHidden()
  expect(backend.agent(info.id).requests).toEqual([])
  // Without any key the agent server answers for itself, which is no use of the sandbox.
  expect((await call(undefined, 'GET', `/sandboxes/${info.id}/agent/alive`)).status).toBe(200)
  expect((await sandboxes.find([info.id]))[0]?.used_at).toBe(row?.used_at)
  await call('ann', 'POST', `/api/v1/sandboxes/${info.id}/pause`)
  await expectHidden()
  expect((await call(undefined, 'GET', `/sandboxes/${info.id}/agent/alive`)).status).toBe(404)
})

test('the proxy refuses other names, resumes no sandbox, and explains what to do', async () => {
  const { call, start, sandboxes, backend } = await server()
  const info = await start('ann')
  const other = await start('ann')
  for (const path of [
    'nope/agent/',
    `${info.id}/AGENT_SERVER/`,
    `${info.id}/vscode/`,
    `${info.id}/constructor/`,
  ])
    expect((await call('ann', 'GET', `/sandboxes/${path}`)).status).toBe(404)
  await call('ann', 'POST', `/api/v1/sandboxes/${info.id}/pause`)
  const refused = await call('ann', 'GET', `/sandboxes/${info.id}/agent/alive`)
  expect(refused.status).toBe(409)
  expect(refused.body.detail).toMatchObject({ sandbox_status: 'PAUSED' })
  expect(refused.body.detail.message).toContain(`slipway sandbox resume ${info.id}`)
  expect((await sandboxes.find([info.id]))[0]).toMatchObject({ wanted: 'paused', status: 'PAUSED' })
  backend.vanish(other.id)
  await eventually(async () => {
    const gone = await call('ann', 'GET', `/sandboxes/${other.id}/agent/alive`)
    expect(gone.body.detail).toMatchObject({ sandbox_status: 'MISSING' })
  })
})

test('no path through the proxy leaves its sandbox', async () => {
  const { start, port, backend } = await server()
  const info = await start('ann')
  backend.agent(info.id).requests.length = 0
  const raw = (path: string) =>
    new Promise<number>((resolve, reject) => {
      const sent = request({ host: '127.0.0.1', port, path, agent: false }, (answer) => {
        answer.resume()
        resolve(answer.statusCode ?? 0)
      })
      sent.on('error', reject).end()
    })
  for (const path of [
    'agent/../../other/agent/alive',
    'agent/%2e%2e/%2e%2e/alive',
    'agent/..%2f..%2falive',
  ]) {
    expect(await raw(`/sandboxes/${info.id}/${path}`)).toBeGreaterThanOrEqual(400)
  }
  expect(await raw(`/sandboxes/${info.id}%2fagent/agent/alive`)).toBe(404)
})
