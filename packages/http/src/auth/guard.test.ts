import type { Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Handlers } from '../core/handler.ts'
import { TestServer } from '../testing/test-server.ts'
import { isHostNameOf } from './guard.ts'

const plain = { path: '/api/thing', tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  read: { ...plain, method: 'GET' },
  write: { ...plain, method: 'POST' },
  health: { ...plain, method: 'GET', path: '/health', open: true },
} as const satisfies Record<string, Route>
const ok = () => ({ json: 'ok' })
const handlers: Handlers<typeof routes> = { read: ok, write: ok, health: ok }
const sockets = [{ path: '/sockets/thing', accepts: () => true, serve: async () => {} }]
const keys = [new Secret('k1'), new Secret('second key')]
const allowedHosts = ['Box.example.org', 'other.example.org:8443']
const allowedOrigins = ['https://app.example.org/']

function open(options: Parameters<typeof TestServer.start>[2] = {}) {
  return TestServer.start(routes, handlers, { sockets, ...options })
}

/** The status of an upgrade: 101, or that of its refusal. */
function upgrade(trial: TestServer, headers: Record<string, string>): Promise<number> {
  return new Promise((resolve) => {
    const ws = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/thing`, { headers })
    ws.on('open', () => resolve(101)).on('error', () => {})
    ws.on('unexpected-response', (_request, { statusCode }) => resolve(statusCode ?? 0))
  })
}

test.for([
  ['k1', 200],
  ['second key', 200],
  ['k2', 401],
  ['K1', 401],
  ['', 401],
  [undefined, 401],
  ['k1, k1', 401],
] as const)('with keys, the key %s is answered with %i', async ([key, status]) => {
  await using trial = await open({ keys })
  const headers = key === undefined ? {} : { 'x-session-api-key': key }
  const answer = await trial.call('/api/thing', { headers })
  expect(answer.status).toBe(status)
  if (status === 401) expect(answer.text).toBe('{"detail":"Unauthorized"}')
  expect((await trial.call('/health', { headers })).status).toBe(200)
})

test('a key in the query does not authorize a request', async () => {
  await using trial = await open({ keys })
  expect((await trial.call('/api/thing?session_api_key=k1')).status).toBe(401)
})

test('without keys, requests need none', async () => {
  await using trial = await open()
  expect((await trial.call('/api/thing', { headers: { 'x-session-api-key': 'any' } })).status).toBe(200)
})

const foreignHosts = [
  'evil.example',
  '192.168.1.7',
  '0.0.0.0',
  'localhost.evil.example',
  '127.0.0.1.evil.example',
  '[::2]',
]
const ownHosts = [
  'localhost',
  'LOCALHOST:1',
  'app.localhost:80',
  'localhost.',
  '127.0.0.1',
  '127.9.8.7:80',
  '[::1]:80',
  '[::1]',
]

test('without keys, only loopback hosts and listed hosts are allowed', async () => {
  await using trial = await open({ allowedHosts })
  for (const host of [...ownHosts, 'box.example.org:99', 'BOX.example.org', 'other.example.org:8443']) {
    expect([host, (await trial.call('/api/thing', { headers: { host } })).status]).toEqual([host, 200])
    expect([host, await upgrade(trial, { host })]).toEqual([host, 101])
  }
  for (const host of [...foreignHosts, 'other.example.org', 'other.example.org:1']) {
    expect([host, (await trial.call('/health', { headers: { host } })).status]).toEqual([host, 403])
    expect([host, await upgrade(trial, { host })]).toEqual([host, 403])
  }
})

test.for([
  ['without keys', '1.1', {}, 400],
  ['with keys', '1.1', { keys }, 400],
  ['with keys', '1.0', { keys }, 200],
] as const)('%s, a request of HTTP/%s without a host is answered', async ([, version, options, status]) => {
  await using trial = await open(options)
  const answer = await trial.raw(`GET /health HTTP/${version}\r\nConnection: close\r\n\r\n`)
  expect(answer).toMatch(`HTTP/1.1 ${status} `)
})

test.for([
  ['an origin', { origin: 'http://evil.example' }],
  ['a cookie', { cookie: 'a=1' }],
  ['metadata of fetch', { 'sec-fetch-site': 'same-origin' }],
] as const)('with keys, a request with %s names this server on loopback', async ([, more]) => {
  const isOwnHost = (host: string) => isHostNameOf('https://box.example.org:8443/agent', host)
  await using trial = await open({ keys, isOwnHost })
  const ask = async (host: string) => {
    const headers = { 'x-session-api-key': 'k1', ...more, host }
    const own = 'origin' in more ? { origin: `http://${host}` } : {}
    const call = await trial.call('/api/thing', { headers: { ...headers, ...own } })
    return { ...call, upgrade: await upgrade(trial, { ...headers, ...own }) }
  }
  const refused = await ask('evil.example')
  expect([refused.status, refused.upgrade]).toEqual([403, 403])
  expect(refused.text).toContain('SLIPWAY_ALLOWED_HOSTS')
  for (const host of ['localhost:8000', 'box.example.org', 'box.example.org:8443']) {
    const { status, upgrade } = await ask(host)
    expect([status, upgrade]).toEqual([200, 101])
  }
})

test('with keys, a program may use any host unless there is a list', async () => {
  const headers = { host: 'evil.example', 'x-session-api-key': 'k1' }
  await using open1 = await open({ keys })
  expect((await open1.call('/api/thing', { headers })).status).toBe(200)
  await using listed = await open({ keys, allowedHosts })
  expect((await listed.call('/api/thing', { headers })).status).toBe(403)
  expect(await upgrade(listed, headers)).toBe(403)
})

/** Origins whose pages may call a server on a port. */
const ownOrigins = (port: number) => [
  `http://localhost:${port}`,
  `http://127.0.0.1:${port}`,
  `HTTP://[::1]:${port}`,
  'https://app.example.org',
]
const foreignOrigins = [
  'http://localhost:3000',
  'http://localhost',
  'https://127.0.0.1',
  'http://[::1]:5173',
  'http://me.localhost',
  'http://127.0.0.2',
  'https://evil.example',
  'null',
  'http://localhost.evil.example',
  'file://',
  'https://app.example.org.evil.example',
  'ftp://localhost',
]

test('without keys, a foreign page may not read, write or open a socket', async () => {
  await using trial = await open({ allowedOrigins })
  for (const origin of ownOrigins(trial.port)) {
    const headers = { origin }
    const read = await trial.call('/api/thing', { headers })
    const write = await trial.call('/api/thing', { method: 'POST', headers })
    expect([origin, read.status, write.status, await upgrade(trial, headers)]).toEqual([
      origin,
      200,
      200,
      101,
    ])
    expect(read.headers['access-control-allow-origin']).toBe(origin)
  }
  const samePort = ['http://me.localhost', 'http://127.0.0.2', 'http://localhost.evil.example']
  for (const origin of [...foreignOrigins, ...samePort.map((name) => `${name}:${trial.port}`)]) {
    const headers = { origin }
    const read = await trial.call('/api/thing', { headers })
    const write = await trial.call('/api/thing', { method: 'POST', headers })
    expect([origin, read.status, write.status, await upgrade(trial, headers)]).toEqual([
      origin,
      403,
      403,
      403,
    ])
    expect(read.headers['access-control-allow-origin']).toBeUndefined()
    expect(JSON.parse(write.text).detail).toContain('SLIPWAY_ALLOWED_ORIGINS')
  }
})

test('pages of programs at another loopback name of the port are foreign', async () => {
  await using trial = await open({ keys, isForeignHost: (host) => host.startsWith('127.0.0.1:') })
  const own = { origin: `http://localhost:${trial.port}`, host: `127.0.0.1:${trial.port}` }
  const key = { 'x-session-api-key': 'k1' }
  const write = async (headers: Record<string, string>) =>
    (await trial.call('/api/thing', { method: 'POST', headers: { ...headers, ...key } })).status
  expect(await write(own)).toBe(200)
  expect(await write({ origin: `http://127.0.0.1:${trial.port}`, host: `localhost:${trial.port}` })).toBe(403)
  expect(await write({ origin: `http://127.0.0.1:${trial.port}`, host: own.host })).toBe(200)
})

test('with keys, a foreign page may send a GET but not read the reply', async () => {
  await using trial = await open({ keys })
  const headers = { origin: 'https://evil.example', 'x-session-api-key': 'k1' }
  const read = await trial.call('/api/thing', { headers })
  expect([read.status, read.headers['access-control-allow-origin']]).toEqual([200, undefined])
  expect((await trial.call('/api/thing', { method: 'POST', headers })).status).toBe(403)
  expect(await upgrade(trial, headers)).toBe(403)
})

test('a page of the server itself may call under any allowed host name', async () => {
  await using trial = await open({ allowedHosts })
  const headers = { host: 'box.example.org:8000', origin: 'http://box.example.org:8000' }
  expect((await trial.call('/api/thing', { method: 'POST', headers })).status).toBe(200)
})

test.for([
  ['cross-site', 'no-cors', 403],
  ['cross-site', 'navigate', 200],
  ['same-origin', 'cors', 200],
  ['same-site', 'no-cors', 403],
  ['same-site', 'navigate', 200],
  ['none', 'navigate', 200],
] as const)(
  'without keys a request of a browser that is %s and %s is answered with %i',
  async ([site, mode, status]) => {
    await using trial = await open()
    const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': mode }
    expect((await trial.call('/api/thing', { headers })).status).toBe(status)
  },
)

test('without keys a form of a foreign page that navigates here does nothing', async () => {
  await using trial = await open()
  for (const site of ['cross-site', 'same-site']) {
    const headers = { 'sec-fetch-site': site, 'sec-fetch-mode': 'navigate' }
    expect((await trial.call('/api/thing', { method: 'POST', headers })).status).toBe(403)
  }
})

test('a preflight needs no key and lists what a page may send, for any path', async () => {
  await using trial = await open({ keys })
  const origin = `http://localhost:${trial.port}`
  for (const path of ['/api/thing', '/health', '/nothing']) {
    const headers = { origin, 'access-control-request-method': 'PATCH' }
    const answer = await trial.call(path, { method: 'OPTIONS', headers })
    expect([path, answer.status, answer.text]).toEqual([path, 204, ''])
    expect(answer.headers).toMatchObject({
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
      'access-control-allow-headers': expect.stringMatching(
        /x-session-api-key.*last-event-id.*idempotency-key.*x-openhands-client, x-openhands-client-version, /,
      ),
    })
    const foreign = { ...headers, origin: 'https://evil.example' }
    expect((await trial.call(path, { method: 'OPTIONS', headers: foreign })).status).toBe(403)
  }
})

test('a page of an allowed origin can read refusals and the ETag', async () => {
  await using trial = await open({ keys })
  const origin = `http://localhost:${trial.port}`
  for (const path of ['/api/thing', '/nothing']) {
    const { status, headers } = await trial.call(path, { headers: { origin } })
    expect([status, headers['access-control-allow-origin']]).toEqual([401, origin])
    expect(headers).toMatchObject({
      vary: 'Origin',
      'access-control-expose-headers': expect.stringMatching(/^etag\b/),
    })
  }
})

test('OPTIONS without an origin lists the methods', async () => {
  await using trial = await open()
  const { status, headers } = await trial.call('/api/thing', { method: 'OPTIONS' })
  expect([status, headers.allow]).toEqual([204, 'GET, HEAD, POST, OPTIONS'])
})

test.each(['text/plain', 'application/json', 'multipart/form-data'])(
  'OPTIONS with a body of %s is answered as without one',
  async (type) => {
    await using trial = await open()
    const call = {
      method: 'OPTIONS',
      headers: { 'content-type': type, 'content-length': 3 },
      body: '[[[',
    }
    expect((await trial.call('/api/thing', call)).status).toBe(204)
    const { status, text } = await trial.call('/nothing', call)
    expect([status, JSON.parse(text)]).toEqual([404, { detail: 'Not Found' }])
  },
)
