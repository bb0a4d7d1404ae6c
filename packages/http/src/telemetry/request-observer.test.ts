import { once } from 'node:events'
import { request } from 'node:http'
import { Problem, type Route } from '@slipway/protocol'
import { createCounter, createHistogram } from '@slipway/shared/metrics'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import * as z from 'zod'
import type { Handlers } from '../core/handler.ts'
import { TestServer } from '../testing/test-server.ts'
import { MetricsRegistry } from './metrics-registry.ts'

const plain = { tag: 'test', summary: 'test', responses: {} } as const
const params = z.object({ conversation_id: z.string() })
const routes = {
  read: { ...plain, method: 'GET', path: '/api/items/{conversation_id}', params },
  write: {
    ...plain,
    method: 'POST',
    path: '/api/items/{conversation_id}',
    params,
    body: z.unknown().optional(),
  },
  secret: { ...plain, method: 'GET', path: '/api/secret', audit: true },
  report: { ...plain, method: 'POST', path: '/api/report', audit: false },
  fail: { ...plain, method: 'GET', path: '/api/fail' },
  follow: { ...plain, method: 'GET', path: '/api/follow' },
  chat: { ...plain, method: 'POST', path: '/v1/chat', bearer: true, errors: 'openai' },
} as const satisfies Record<string, Route>

async function* events() {
  yield 'data: 1\n\n'
  yield 'data: 2\n\n'
}

const handlers: Handlers<typeof routes> = {
  read: () => ({ json: 1 }),
  write: () => ({ status: 201, json: 1 }),
  secret: () => ({ json: 'a plain secret' }),
  report: () => ({ json: 1 }),
  fail: () => {
    throw new Error('the inner reason')
  },
  follow: () => ({ chunks: events(), contentType: 'text/event-stream' }),
  chat: () => ({
    refusal: new Problem('timeout', 'It takes too long'),
    headers: { 'x-conversation': 'c1' },
  }),
}

const key = 'the-session-key'

function open(options: Parameters<typeof TestServer.start>[2] = {}) {
  const registry = new MetricsRegistry()
  return {
    from: registry,
    opened: TestServer.start(routes, handlers, { metrics: { registry, isOpen: false }, ...options }),
  }
}

/** The lines of our own metrics by name and labels. */
function parseSeries(text: string): Map<string, number> {
  const lines = text.split('\n').filter((line) => line.startsWith('slipway_'))
  return new Map(lines.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]))
}

test('requests are counted by route, method and class, unknown ones as other', async () => {
  const { from, opened } = open()
  await using trial = await opened
  await trial.call('/api/items/one')
  await trial.call('/api/items/two')
  await trial.json('/api/items/one', { x: 1 })
  await trial.call('/api/items/one', { method: 'DELETE' })
  await trial.call('/api/nothing/private')
  await trial.call('/api/fail')
  await trial.call('/api/follow')
  const found = parseSeries(await from.render())
  const count = (method: string, route: string, status: string) =>
    found.get(`slipway_http_requests_total{method="${method}",route="${route}",status="${status}"}`)
  expect(count('GET', '/api/items/{conversation_id}', '2xx')).toBe(2)
  expect(count('POST', '/api/items/{conversation_id}', '2xx')).toBe(1)
  expect(count('DELETE', 'other', '4xx')).toBe(1)
  expect(count('GET', 'other', '4xx')).toBe(1)
  expect(count('GET', '/api/fail', '5xx')).toBe(1)
  expect(count('GET', '/api/follow', '2xx')).toBe(1)
  expect(found.get('slipway_http_requests_in_flight')).toBe(0)
  expect(found.get('slipway_streams_open')).toBe(0)
  expect(found.get('slipway_streams_closed_total{outcome="ended"}')).toBe(1)
  const duration = 'slipway_http_request_duration_seconds'
  const labels = 'method="GET",route="/api/items/{conversation_id}"'
  expect(found.get(`${duration}_count{${labels}}`)).toBe(2)
  expect(found.get(`${duration}_bucket{le="+Inf",${labels}}`)).toBe(2)
  // The duration of a stream depends on its reader.
  expect(found.has(`${duration}_count{method="GET",route="/api/follow"}`)).toBe(false)
})

test('random addresses and methods add no series', async () => {
  const { from, opened } = open()
  await using trial = await opened
  const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PROPFIND', 'SEARCH', 'LOCK']
  const ask = async (method: string, n: number) => {
    await trial.call(`/api/items/private-${n}?key=${n}`, { method })
    await trial.call(`/private-${n}/${Math.random()}`, { method })
  }
  for (const [n, method] of methods.entries()) await ask(method, n)
  const before = [...parseSeries(await from.render()).keys()]
  for (let n = 0; n < 500; n++) await ask(methods[n % methods.length] ?? 'GET', n)
  const text = await from.render()
  expect([...parseSeries(text).keys()]).toEqual(before)
  expect(text).not.toContain('private')
})

test('the metrics need the key, in its header or as a bearer, unless they are open', async () => {
  const keys = [new Secret(key)]
  await using trial = await open({ keys }).opened
  const status = async (headers: Record<string, string>) => (await trial.call('/metrics', { headers })).status
  expect(await status({})).toBe(401)
  expect(await status({ authorization: 'Bearer wrong' })).toBe(401)
  expect(await status({ authorization: `Bearer ${key}` })).toBe(200)
  expect(await status({ 'x-session-api-key': key })).toBe(200)
  const { headers, text } = await trial.call('/metrics', { headers: { 'x-session-api-key': key } })
  expect(headers['content-type']).toBe('text/plain; version=0.0.4; charset=utf-8')
  for (const name of [
    'nodejs_eventloop_lag_seconds',
    'process_resident_memory_bytes',
    'nodejs_gc_duration_seconds',
  ])
    expect(text).toContain(`# TYPE ${name}`)
  expect(text).not.toContain(key)
  const registry = new MetricsRegistry()
  await using others = await open({ keys, metrics: { registry, isOpen: true } }).opened
  expect((await others.call('/metrics')).status).toBe(200)
  await using none = await TestServer.start(routes, handlers)
  expect((await none.call('/metrics')).status).toBe(404)
})

test('every line of the metrics parses, whatever a label contains', async () => {
  const from = new MetricsRegistry()
  const counter = createCounter('slipway_x_total', 'X.', 'a')
  counter.inc({ a: 'a "quoted" \\ line\nbreak' })
  const histogram = createHistogram('slipway_y', 'Y.', [1, 2])
  for (const value of [0.5, 1, 1.5, 9]) histogram.observe(value)
  from.add(() => [counter, histogram])
  const text = await from.render()
  for (const line of text.split('\n'))
    expect(line).toMatch(
      /^$|^# (HELP|TYPE) \w+ |^\w+(\{(\w+="([^"\\\n]|\\.)*",?)*\})? ([-+.\de]+|[-+]Inf|NaN)$/i,
    )
  expect([...parseSeries(text)]).toEqual([
    ['slipway_x_total{a="a \\"quoted\\" \\\\ line\\nbreak"}', 1],
    ['slipway_y_bucket{le="1"}', 2],
    ['slipway_y_bucket{le="2"}', 3],
    ['slipway_y_bucket{le="+Inf"}', 4],
    ['slipway_y_sum', 12],
    ['slipway_y_count', 4],
  ])
})

test('changes are audited with caller and ids, without contents', async () => {
  await using trial = await open({ keys: [new Secret(key)] }).opened
  const headers = { 'x-session-api-key': key, 'x-request-id': 'from-the-proxy.1' }
  const { headers: answered } = await trial.json(
    '/api/items/c1?secret=hidden',
    { said: 'hidden' },
    { headers },
  )
  expect(answered['x-request-id']).toBe('from-the-proxy.1')
  await trial.json('/api/items/c1', {}, { headers: { 'x-session-api-key': 'hidden' } })
  await trial.call('/api/items/c1', { headers })
  await trial.call('/api/secret', { headers })
  await trial.call('/api/items/c2', { headers: { ...headers, 'x-expose-secrets': 'plaintext' } })
  await trial.call('/api/items/c2', { headers: { ...headers, 'x-expose-secrets': 'encrypted' } })
  await trial.json('/api/report', {}, { headers })
  await trial.json('/api/nothing', {}, { headers })
  const route = '/api/items/{conversation_id}'
  const caller = expect.stringMatching(/^key:[0-9a-f]{12}$/)
  const request_id = 'from-the-proxy.1'
  expect(trial.auditEntries).toEqual([
    { audit: true, method: 'POST', route, status: 201, conversation: 'c1', caller, request_id },
    { audit: true, method: 'POST', route, status: 401, conversation: 'c1', request_id: expect.any(String) },
    { audit: true, method: 'GET', route: '/api/secret', status: 200, caller, request_id },
    { audit: true, method: 'GET', route, status: 200, conversation: 'c2', caller, request_id },
  ])
  const text = JSON.stringify(trial.auditEntries)
  for (const hidden of ['hidden', key, 'a plain secret']) expect(text).not.toContain(hidden)
})

test('an invalid request id is replaced, and an invalid id of a path is dropped', async () => {
  await using trial = await open().opened
  const headers = { 'x-request-id': 'a b"\t<script>' }
  const { headers: answered } = await trial.json(
    `/api/items/${encodeURIComponent('a\n{"x":1}')}`,
    {},
    { headers },
  )
  expect(answered['x-request-id']).toMatch(/^[0-9a-f]{16}$/)
  expect(trial.auditEntries).toMatchObject([{ request_id: answered['x-request-id'] }])
  expect(trial.auditEntries[0]?.conversation).toBeUndefined()
})

test('the default audit is lines of the log', async () => {
  await using trial = await open({ audit: undefined }).opened
  await trial.json('/api/items/c1', {})
  const line = {
    level: 'info',
    message: 'audit',
    members: expect.objectContaining({ audit: true, status: 201 }),
  }
  expect(trial.logEntries).toContainEqual(line)
})

test('a message on a socket is audited with its sender, and sockets are counted by close code', async () => {
  const registry = new MetricsRegistry()
  await using trial = await TestServer.start(routes, handlers, {
    keys: [new Secret(key)],
    metrics: { registry, isOpen: false },
    sockets: [
      {
        path: '/sockets/{conversation_id}',
        accepts: () => true,
        serve: async (socket) => {
          const { promise, resolve } = Promise.withResolvers<void>()
          socket.onMessage(async () => resolve())
          await promise
        },
      },
    ],
  })
  for (const query of [`?session_api_key=${key}`, '']) {
    const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/c1${query}`)
    await once(ws, 'open')
    if (query === '') ws.send(JSON.stringify({ type: 'auth', session_api_key: key }))
    ws.send('something private')
    await once(ws, 'close')
  }
  const one = { audit: true, method: 'WEBSOCKET', route: '/sockets/{conversation_id}', status: 101 }
  const caller = expect.stringMatching(/^key:[0-9a-f]{12}$/)
  const whole = { ...one, conversation: 'c1', caller, request_id: expect.any(String) }
  expect(trial.auditEntries).toEqual([whole, whole])
  await expect
    .poll(async () => parseSeries(await registry.render()).get('slipway_sockets_closed_total{code="1000"}'))
    .toBe(2)
  expect(parseSeries(await registry.render()).get('slipway_sockets_opened_total')).toBe(2)
  expect(parseSeries(await registry.render()).get('slipway_sockets_open')).toBe(0)
})

test("errors in OpenAI's format have its members besides ours, and a refusal its headers", async () => {
  await using trial = await open({ keys: [new Secret(key)] }).opened
  const { status, headers, text } = await trial.json(
    '/v1/chat',
    {},
    { headers: { authorization: `Bearer ${key}` } },
  )
  expect([status, headers['x-conversation']]).toEqual([504, 'c1'])
  const body = JSON.parse(text)
  expect(body).toEqual({
    detail: 'It takes too long',
    error: { message: 'It takes too long', type: 'server_error', param: null, code: 'timeout' },
    error_id: expect.stringMatching(/^[0-9a-f]{16}$/),
  })
  const told = trial.logEntries.filter(({ members }) => members?.error_id === body.error_id)
  expect(told).toMatchObject([{ level: 'warn', members: { route: '/v1/chat' } }])
})

test('a WebSocket that fails with an internal error has an error id and one line of the log', async () => {
  await using trial = await open({
    sockets: [{ path: '/sockets/x', accepts: () => true, serve: async () => {} }],
    checkReady: () => {
      throw new Problem('unavailable', 'Not yet')
    },
  }).opened
  const head = 'GET /sockets/x HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
  const text = await trial.raw(
    `${head}Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n`,
  )
  expect(text).toMatch(/^HTTP\/1.1 503 /)
  const { error_id } = JSON.parse(text.slice(text.indexOf('{')))
  const told = trial.logEntries.filter(({ members }) => members?.error_id === error_id)
  expect(told).toMatchObject([{ level: 'warn', members: { error: expect.stringContaining('Not yet') } }])
})

test('a reader of a stream that is cut off is logged and counted by that outcome', async () => {
  async function* flood() {
    for (;;) yield `data: ${'x'.repeat(1 << 20)}\n\n`
  }
  const registry = new MetricsRegistry()
  await using trial = await TestServer.start(
    routes,
    { ...handlers, follow: () => ({ chunks: flood(), contentType: 'text/event-stream' }) },
    { metrics: { registry, isOpen: true }, stallMs: 50 },
  )
  const outgoing = request({ host: '127.0.0.1', port: trial.port, path: '/api/follow', agent: false }).end()
  const [answer] = await once(outgoing, 'response')
  await expect
    .poll(async () =>
      parseSeries(await registry.render()).get('slipway_streams_closed_total{outcome="stalled"}'),
    )
    .toBe(1)
  expect(trial.logEntries.filter(({ level }) => level === 'warn')).toMatchObject([
    { message: expect.stringContaining('read nothing'), members: { route: '/api/follow' } },
  ])
  answer.on('error', () => {}).destroy()
})

test('a handler that fails in the middle of a stream logs one line with an id and cuts the connection', async () => {
  async function* broken() {
    yield 'data: 1\n\n'
    throw new Error('the inner reason')
  }
  const registry = new MetricsRegistry()
  await using trial = await TestServer.start(
    routes,
    { ...handlers, follow: () => ({ chunks: broken(), contentType: 'text/event-stream' }) },
    { metrics: { registry, isOpen: true } },
  )
  await expect(trial.call('/api/follow')).rejects.toThrow()
  const told = trial.logEntries.filter(({ level }) => level === 'error')
  expect(told).toMatchObject([
    { message: 'request failed', members: { error_id: expect.any(String), route: '/api/follow' } },
  ])
  expect(parseSeries(await registry.render()).get('slipway_streams_closed_total{outcome="failed"}')).toBe(1)
  expect(parseSeries(await registry.render()).get('slipway_http_requests_in_flight')).toBe(0)
})
