import { Problem, type Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import * as z from 'zod'
import type { AppOptions } from './app.ts'
import type { Handlers } from './core/handler.ts'
import { TestServer } from './testing/test-server.ts'

const plain = { tag: 'test', summary: 'test', access: 'user', responses: {} } as const
const routes = {
  who: { ...plain, method: 'GET', path: '/api/who' },
  echo: { ...plain, method: 'POST', path: '/api/echo', body: z.unknown() },
  run: { ...plain, method: 'POST', path: '/api/run' },
  lines: { ...plain, method: 'POST', path: '/api/lines', stream: 'application/x-ndjson' },
  file: { ...plain, method: 'POST', path: '/api/file', upload: true },
  health: { ...plain, method: 'GET', path: '/health', open: true },
} as const satisfies Record<string, Route>

async function countBytes(bytes: AsyncIterable<Buffer>): Promise<number> {
  let sizeBytes = 0
  for await (const chunk of bytes) sizeBytes += chunk.length
  return sizeBytes
}

const handlers: Handlers<typeof routes> = {
  who: ({ caller }) => ({ json: caller ?? null }),
  echo: ({ caller, body }) => ({ json: [caller, body ?? null] }),
  run: ({ caller }) => ({ json: caller }),
  lines: async ({ caller, stream }) => ({ json: [caller, await countBytes(stream)] }),
  file: async ({ caller, upload }) => ({ json: [caller, await countBytes((await upload()).bytes)] }),
  health: ({ caller }) => ({ json: caller ?? null }),
}

type Identify = NonNullable<AppOptions['identify']>
const identifyByCookie: Identify = (route, header) => {
  const name = /(?:^|; )user=(\w+)/.exec(header('Cookie') ?? '')?.[1]
  if (name === undefined) throw new Problem('unauthorized', `Who calls ${route.tag} ${route.path}?`)
  return { name }
}
const identifyLater: Identify = async (route, header) => {
  await new Promise((resolve) => setTimeout(resolve, 20))
  return identifyByCookie(route, header)
}
const cookie = { cookie: 'a=1; user=ann' }

test.for([
  ['at once', identifyByCookie],
  ['later', identifyLater],
] as const)(
  'a caller who is identified %s reaches the handler, with every kind of body',
  async ([, identify]) => {
    await using trial = await TestServer.start(routes, handlers, { identify })
    const ann = '{"name":"ann"}'
    for (let time = 0; time < 2; time++) {
      expect((await trial.call('/api/who', { headers: cookie })).text).toBe(ann)
    }
    expect((await trial.call('/api/who', { headers: { cookie: 'user=bob' } })).text).toBe('{"name":"bob"}')
    for (const size of [1, 1_000_000]) {
      const text = 'x'.repeat(size)
      expect((await trial.json('/api/echo', text, { headers: cookie })).text).toBe(`[${ann},"${text}"]`)
      const lines = { ...cookie, 'content-type': 'application/x-ndjson' }
      expect((await trial.call('/api/lines', { method: 'POST', headers: lines, body: text })).text).toBe(
        `[${ann},${size}]`,
      )
      const form = new FormData()
      form.set('file', new Blob([text]))
      const answer = await fetch(`${trial.listening.url}/api/file`, {
        method: 'POST',
        headers: cookie,
        body: form,
      })
      expect(await answer.text()).toBe(`[${ann},${size}]`)
      expect((await trial.call('/api/run', { method: 'POST', headers: cookie, body: text })).text).toBe(ann)
    }
  },
)

test.for([
  ['at once', identifyByCookie],
  ['later', identifyLater],
] as const)('without a caller, refused %s, every path is 401 but the open ones', async ([, identify]) => {
  await using trial = await TestServer.start(routes, handlers, { identify })
  for (const [path, asked] of [
    ['/api/who', 'test /api/who'],
    ['/openapi.json', 'docs /docs'],
    ['/docs', 'docs /docs'],
    ['/redoc', 'docs /docs'],
    ['/nothing', 'docs /docs'],
  ]) {
    expect(await trial.call(path ?? '')).toMatchObject({
      status: 401,
      text: `{"detail":"Who calls ${asked}?"}`,
    })
  }
  expect((await trial.call('/api/who', { method: 'PUT' })).status).toBe(401)
  expect(await trial.call('/health', { headers: cookie })).toMatchObject({ status: 200, text: 'null' })
  for (const [path, status] of [
    ['/openapi.json', 200],
    ['/docs', 200],
    ['/nothing', 404],
  ] as const) {
    expect((await trial.call(path, { headers: cookie })).status).toBe(status)
  }
  expect((await trial.call('/api/who', { method: 'PUT', headers: cookie })).status).toBe(405)
})

test('a caller is refused before the body is read', async () => {
  await using trial = await TestServer.start(routes, handlers, { identify: identifyLater, lingerMs: 200 })
  const text = await trial.raw(
    'POST /api/echo HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n',
  )
  expect(text).toMatch(/^HTTP\/1.1 401 /)
  expect((await trial.call('/api/echo', { method: 'POST', body: '{' })).status).toBe(401)
})

test('a client that disconnects during identification leaves no trace', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const served: unknown[] = []
  await using trial = await TestServer.start(
    routes,
    { ...handlers, echo: ({ body }) => ({ json: served.push(body) }) },
    {
      async identify() {
        resolve()
        await new Promise((done) => setTimeout(done, 100))
      },
    },
  )
  const stop = new AbortController()
  const call = fetch(`${trial.listening.url}/api/echo`, {
    method: 'POST',
    body: 'x'.repeat(100_000),
    signal: stop.signal,
  })
  await promise
  stop.abort()
  await expect(call).rejects.toThrow()
  await new Promise((done) => setTimeout(done, 200))
  expect(served).toEqual([])
  expect(trial.logEntries.filter(({ level }) => level === 'error')).toEqual([])
})

test('an error of identify that is no Problem is an internal error', async () => {
  await using trial = await TestServer.start(routes, handlers, {
    identify: () => Promise.reject(new Error('the reason')),
  })
  const answer = await trial.call('/api/who')
  expect([answer.status, answer.text.includes('reason')]).toEqual([500, false])
})

test('with identify, hosts and origins are checked as with keys, and a socket needs a key', async () => {
  const sockets = [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }]
  await using trial = await TestServer.start(routes, handlers, { identify: identifyByCookie, sockets })
  expect((await trial.call('/api/who', { headers: { ...cookie, host: 'any.example' } })).status).toBe(403)
  const foreign = { ...cookie, origin: 'https://evil.example' }
  expect((await trial.call('/api/run', { method: 'POST', headers: foreign })).status).toBe(403)
  const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/x?session_api_key=x`, { headers: cookie })
  const status = await new Promise((resolve) =>
    ws.on('error', () => {}).on('unexpected-response', (_, { statusCode }) => resolve(statusCode)),
  )
  expect(status).toBe(403)
})

test('openDocs opens the API description only', async () => {
  for (const options of [{ identify: identifyLater }, { keys: [new Secret('k')] }]) {
    await using trial = await TestServer.start(routes, handlers, { ...options, openDocs: true })
    for (const [path, status] of [
      ['/openapi.json', 200],
      ['/docs', 200],
      ['/redoc', 307],
      ['/nothing', 401],
      ['/api/who', 401],
    ] as const) {
      expect([path, (await trial.call(path)).status]).toEqual([path, status])
    }
    expect((await trial.call('/docs', { method: 'POST' })).status).toBe(401)
  }
})

test('a preflight needs no caller and lists the allowed headers', async () => {
  await using trial = await TestServer.start(routes, handlers, { identify: identifyByCookie })
  const origin = `http://localhost:${trial.port}`
  const headers = { origin, 'access-control-request-method': 'POST' }
  for (const path of ['/api/run', '/nothing']) {
    const answer = await trial.call(path, { method: 'OPTIONS', headers })
    expect(answer.status).toBe(204)
    const allowed = String(answer.headers['access-control-allow-headers']).split(', ')
    expect(allowed).toEqual(
      expect.arrayContaining([
        'authorization',
        'x-access-token',
        'x-org-id',
        'x-init-api-key',
        'x-session-api-key',
      ]),
    )
  }
})

test('added keys are valid at once, and removed keys no longer', async () => {
  let keys: readonly Secret[] | undefined
  const sockets = [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }]
  await using trial = await TestServer.start(routes, handlers, { keys: () => keys, sockets })
  const status = async (key: string) =>
    (await trial.call('/api/who', { headers: { 'x-session-api-key': key } })).status
  const upgraded = (key: string) => {
    const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/x?session_api_key=${key}`)
    return new Promise((resolve) => ws.on('error', () => resolve(403)).on('open', () => resolve(101)))
  }
  expect([await status('k1'), await status('k2'), await upgraded('k1')]).toEqual([401, 401, 403])
  keys = [new Secret('k1')]
  expect([await status('k1'), await status('k2'), await upgraded('k1')]).toEqual([200, 401, 101])
  keys = [new Secret('k2')]
  expect([await status('k1'), await status('k2'), await upgraded('k1')]).toEqual([401, 200, 403])
  keys = []
  expect([await status('any'), (await trial.call('/api/who')).status]).toEqual([200, 200])
})

test('checkReady is called first, with the path, except for preflights', async () => {
  const asked: string[] = []
  let isOpen = false
  const checkReady = (path: string) => {
    asked.push(path)
    if (!isOpen && path !== '/health') throw new Problem('unavailable', 'The server is not ready')
  }
  const sockets = [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }]
  await using trial = await TestServer.start(routes, handlers, {
    checkReady,
    sockets,
    keys: [new Secret('k')],
    lingerMs: 200,
  })
  const origin = `http://localhost:${trial.port}`
  const answer = await trial.call('/api/who?x=1', { headers: { origin } })
  expect(answer).toMatchObject({ status: 503, text: expect.stringContaining('"The server is not ready"') })
  expect(answer.headers['access-control-allow-origin']).toBe(origin)
  expect((await trial.json('/api/echo', 1)).status).toBe(503)
  for (const path of ['/docs', '/openapi.json', '/nothing', '/api/%zz'])
    expect((await trial.call(path)).status).toBe(503)
  expect((await trial.call('/health')).status).toBe(200)
  const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/x?session_api_key=k`)
  const status = await new Promise((resolve) =>
    ws.on('error', () => {}).on('unexpected-response', (_, { statusCode }) => resolve(statusCode)),
  )
  expect(status).toBe(503)
  const preflight = { origin, 'access-control-request-method': 'GET' }
  expect((await trial.call('/api/who', { method: 'OPTIONS', headers: preflight })).status).toBe(204)
  expect(asked).toEqual([
    '/api/who',
    '/api/echo',
    '/docs',
    '/openapi.json',
    '/nothing',
    '/api/%zz',
    '/health',
    '/sockets/x',
  ])
  isOpen = true
  const headers = { 'x-session-api-key': 'k' }
  for (let time = 0; time < 2; time++) expect((await trial.call('/api/who', { headers })).status).toBe(200)
  isOpen = false
  expect((await trial.call('/api/who', { headers })).status).toBe(503)
})

test('a route that does not declare whose key opens it does not start', async () => {
  const { access: _, ...undeclared } = routes.who
  const start = TestServer.start({ undeclared }, { undeclared: handlers.who }, { identify: identifyByCookie })
  await expect(start).rejects.toThrow('GET /api/who does not declare whose key opens it')
})
