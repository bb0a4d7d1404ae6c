import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { request } from 'node:http'
import { connect, createServer, type Socket as NetSocket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Problem, type Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import * as z from 'zod'
import { type AppOptions, createApp } from '../app.ts'
import type { Handlers, SocketRoute } from '../core/handler.ts'
import { listen } from '../listen.ts'
import { createFrame } from '../sockets/frame.ts'
import { TestServer } from '../testing/test-server.ts'
import type { ProxyRequest, ProxyRoute } from './reverse-proxy.ts'

const plain = { tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  item: {
    ...plain,
    method: 'GET',
    path: '/api/items/{id}',
    params: z.object({ id: z.string() }),
    query: z.object({ q: z.string().optional() }),
  },
  echo: { ...plain, method: 'POST', path: '/api/echo', body: z.unknown() },
  drop: { ...plain, method: 'DELETE', path: '/api/echo', body: z.unknown() },
  upload: { ...plain, method: 'POST', path: '/api/upload', upload: true },
  sent: { ...plain, method: 'GET', path: '/api/sent' },
  flood: { ...plain, method: 'GET', path: '/api/flood' },
  cookie: { ...plain, method: 'GET', path: '/api/cookie' },
  headers: { ...plain, method: 'GET', path: '/api/headers' },
} as const satisfies Record<string, Route>

const echoedHeaders = [
  'host',
  'cookie',
  'x-session-api-key',
  'x-forwarded-for',
  'x-forwarded-proto',
  'x-forwarded-host',
  'x-forwarded-prefix',
  'connection',
  'te',
  'x-own',
  'x-hop',
  'origin',
]

/** What the target of these tests is told and does besides answering. */
class Upstream {
  readonly sentPieces: number[] = []
  readonly endedStreams: boolean[] = []

  handlers(): Handlers<typeof routes> {
    return {
      item: ({ params, query }) => ({ json: { ...params, ...query } }),
      echo: ({ body }) => ({ status: 201, json: body ?? null }),
      drop: ({ body }) => ({ json: { dropped: body ?? null } }),
      async upload({ upload }) {
        const hash = createHash('sha256')
        const { filename, bytes } = await upload()
        for await (const chunk of bytes) hash.update(chunk)
        return { json: { filename, hash: hash.digest('hex') } }
      },
      sent: ({ signal }) => ({ contentType: 'text/event-stream', chunks: this.#beats(signal) }),
      flood: ({ signal }) => ({ contentType: 'application/octet-stream', chunks: this.#flood(signal) }),
      cookie: () => ({ json: null, headers: { 'set-cookie': 'a=1; Path=/', etag: '"e"' } }),
      headers: ({ header }) => ({
        json: Object.fromEntries(echoedHeaders.map((name) => [name, header(name) ?? null])),
      }),
    }
  }

  async *#beats(signal: AbortSignal): AsyncGenerator<string> {
    try {
      for (let n = 1; !signal.aborted; n++) {
        yield `id: ${n}\n\n`
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
    } finally {
      this.endedStreams.push(signal.aborted)
    }
  }

  async *#flood(signal: AbortSignal): AsyncGenerator<Buffer> {
    try {
      for (let n = 0; n < 200; n++) {
        this.sentPieces.push(n)
        yield Buffer.alloc(1 << 20, n)
      }
    } finally {
      this.endedStreams.push(signal.aborted)
    }
  }
}

const echo: SocketRoute = {
  path: '/sockets/{id}',
  accepts: ({ params }) => params.id !== 'refused',
  async serve(socket) {
    socket.onMessage(async (text) => {
      if (text === 'close me') socket.close(4321, 'as you wish')
      else await socket.send([createFrame(Buffer.from(text))])
    })
    if (!socket.signal.aborted) await once(socket.signal, 'abort')
  },
}

interface ProxyFixture extends AsyncDisposable {
  readonly proxy: TestServer
  readonly target: TestServer
  readonly upstream: Upstream
  readonly requests: ProxyRequest[]
}

const prefix = '/sandboxes/{sandbox_id}/{name}'

async function createProxyFixture(
  near: Partial<AppOptions> = {},
  target: Partial<AppOptions> = {},
): Promise<ProxyFixture> {
  const upstream = new Upstream()
  const behind = await TestServer.start(routes, upstream.handlers(), { sockets: [echo], ...target })
  const requests: ProxyRequest[] = []
  const proxy = await TestServer.start(
    {},
    {},
    { proxyRoutes: [proxyTo(behind.listening.url, requests)], ...near },
  )
  return {
    proxy: proxy,
    target: behind,
    upstream,
    requests,
    async [Symbol.asyncDispose]() {
      await proxy.listening.close()
      await behind.listening.close()
    },
  }
}

/** A relay to one address; a sandbox named `none` is missing. */
function proxyTo(
  url: string,
  requests: ProxyRequest[] = [],
  headers?: Record<string, string | undefined>,
): ProxyRoute {
  return {
    prefix,
    async target(request) {
      requests.push(request)
      await new Promise(setImmediate)
      if (request.params.sandbox_id === 'none') throw new Problem('not_found', 'There is no such sandbox')
      return headers === undefined ? { url } : { url, headers }
    },
  }
}

/** A server of bytes in front of which there is a relay. */
async function proxyToBytes(serve: (socket: NetSocket) => void, options: Partial<AppOptions> = {}) {
  const open = new Set<NetSocket>()
  const server = createServer((socket) => {
    open.add(socket.on('error', () => {}).on('close', () => open.delete(socket)))
    serve(socket)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  const port = typeof address === 'object' && address !== null ? address.port : 0
  const near = await TestServer.start(
    {},
    {},
    { proxyRoutes: [proxyTo(`http://127.0.0.1:${port}`)], ...options },
  )
  return {
    near,
    open,
    async [Symbol.asyncDispose]() {
      await near.listening.close()
      for (const socket of open) socket.destroy()
      server.close()
    },
  }
}

const at = '/sandboxes/s%201/AGENT_SERVER'

test('every method is forwarded without the prefix, with its query and body', async () => {
  await using both = await createProxyFixture()
  const { proxy, requests } = both
  const got = await proxy.call(`${at}/api/items/a%2Fb?q=1%262&x=?y`)
  expect([got.status, JSON.parse(got.text)]).toEqual([200, { id: 'a/b', q: '1&2' }])
  expect(requests[0]).toMatchObject({
    params: { sandbox_id: 's 1', name: 'AGENT_SERVER' },
    method: 'GET',
    path: '/api/items/a%2Fb',
    isUpgrade: false,
  })
  expect(await proxy.json(`${at}/api/echo`, { a: 'é' })).toMatchObject({ status: 201, text: '{"a":"é"}' })
  expect((await proxy.call(`${at}/api/echo`, { method: 'PUT' })).status).toBe(405)
  const head = await proxy.call(`${at}/api/items/x`, { method: 'HEAD' })
  expect([head.status, head.text, head.headers['content-length']]).toEqual([200, '', '10'])
  expect((await proxy.call(`${at}/api/nothing`)).text).toBe('{"detail":"Not Found"}')
  expect((await proxy.call(`${at}/openapi.json`)).text).toBe('{"openapi":"3.1.0"}')
})

test.for([
  ['with its length told', false],
  ['in chunks', true],
] as const)(
  'the body of a DELETE, %s, arrives as the body of this DELETE and nothing else',
  async ([, isChunked]) => {
    await using both = await createProxyFixture()
    const body = Buffer.from('{"hidden":"POST /api/echo HTTP/1.1"}')
    const framing = isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': body.length }
    const headers = { 'content-type': 'application/json', ...framing }
    const answer = await both.proxy.call(`${at}/api/echo`, { method: 'DELETE', headers, body })
    expect(JSON.parse(answer.text)).toEqual({ dropped: JSON.parse(String(body)) })
    expect((await both.proxy.call(`${at}/api/echo`, { method: 'DELETE' })).text).toBe('{"dropped":null}')
    expect(both.target.logEntries.map(({ members }) => members?.method)).toEqual(['DELETE', 'DELETE'])
  },
)

test('a proxied connection serves several requests', async () => {
  await using both = await createProxyFixture()
  const ask = (path: string, more = '') => `GET ${at}${path} HTTP/1.1\r\nHost: localhost\r\n${more}\r\n`
  const text = await both.proxy.raw(
    ask('/api/items/1') + ask('/api/nothing') + ask('/api/items/2', 'Connection: close\r\n'),
  )
  expect(text.match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 404', 'HTTP/1.1 200'])
})

test('the target gets forwarded headers and no hop-by-hop headers', async () => {
  await using both = await createProxyFixture()
  const headers = {
    host: 'localhost:99',
    connection: 'x-hop, keep-alive, content-length, host, x-forwarded-for',
    'x-hop': '1',
    te: 'trailers',
    cookie: 'a=1; b=2',
    'x-own': 'v',
    'x-forwarded-for': '10.0.0.1',
  }
  const { text } = await both.proxy.call(`${at}/api/headers`, { headers })
  expect(JSON.parse(text)).toMatchObject({
    host: `127.0.0.1:${both.target.port}`,
    cookie: 'a=1; b=2',
    'x-forwarded-for': '10.0.0.1, 127.0.0.1',
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'localhost:99',
    'x-forwarded-prefix': at,
    'x-own': 'v',
    'x-hop': null,
    te: null,
  })
})

test('answers of an untrusted target get an opaque origin and set nothing for the whole origin', async () => {
  await using both = await createProxyFixture()
  const route = { ...proxyTo(both.target.listening.url), isUntrusted: true }
  await using near = await TestServer.start({}, {}, { proxyRoutes: [route] })
  const { status, headers } = await near.call(`${at}/api/cookie`)
  expect([status, headers['set-cookie'], headers.etag]).toEqual([200, undefined, '"e"'])
  expect(headers['content-security-policy']).toContain('sandbox')
  expect(headers['content-security-policy']).not.toContain('allow-same-origin')
  const worker = await near.call(`${at}/api/cookie`, { headers: { 'service-worker': 'script' } })
  expect(worker.status).toBe(403)
})

test('a request that names a protocol without asking for it is an ordinary one', async () => {
  await using both = await createProxyFixture()
  const headers = { connection: 'close', upgrade: 'websocket' }
  expect((await both.proxy.call(`${at}/api/items/1`, { headers })).text).toBe('{"id":"1"}')
  expect(both.requests[0]).toMatchObject({ isUpgrade: false })
})

test('headers of the proxy route replace those of the client', async () => {
  await using target = await TestServer.start(routes, new Upstream().handlers())
  const relay = proxyTo(target.listening.url, [], { 'X-Session-API-Key': 'own', cookie: undefined })
  await using near = await TestServer.start({}, {}, { proxyRoutes: [relay] })
  const headers = { 'x-session-api-key': 'given', cookie: 'a=1', connection: 'x-session-api-key' }
  const { text } = await near.call(`${at}/api/headers`, { headers })
  expect(JSON.parse(text)).toMatchObject({ 'x-session-api-key': 'own', cookie: null })
})

test('replies keep their headers, once each', async () => {
  const origin = 'https://app.example'
  await using both = await createProxyFixture({ allowedOrigins: [origin] }, { allowedOrigins: [origin] })
  const { headers } = await both.proxy.call(`${at}/api/cookie`, { headers: { origin } })
  expect(headers['set-cookie']).toEqual(['a=1; Path=/'])
  expect(headers).toMatchObject({ etag: '"e"', vary: 'Origin', 'access-control-allow-origin': origin })
})

test('a preflight is answered by the target, and by the relay when there is no target', async () => {
  const origin = 'https://app.example'
  const target = { keys: [new Secret('k1')], allowedOrigins: [origin] }
  await using both = await createProxyFixture({ allowedOrigins: [origin] }, target)
  const headers = { origin, 'access-control-request-method': 'POST' }
  const answer = await both.proxy.call(`${at}/api/echo`, { method: 'OPTIONS', headers })
  expect([answer.status, answer.headers.allow]).toEqual([204, 'POST, DELETE, OPTIONS'])
  expect(answer.headers['access-control-allow-origin']).toBe(origin)
  const none = await both.proxy.call('/sandboxes/none/x/api/echo', { method: 'OPTIONS', headers })
  expect([none.status, none.headers['access-control-allow-methods']]).toEqual([
    204,
    'GET, POST, PUT, PATCH, DELETE',
  ])
  expect((await both.proxy.call('/sandboxes/none/x', { method: 'OPTIONS' })).status).toBe(404)
})

test('a page of the relay may act on the target, a page of another port may not', async () => {
  await using both = await createProxyFixture()
  const send = (origin: string) => both.proxy.call(`${at}/api/echo`, { method: 'POST', headers: { origin } })
  const own = `http://127.0.0.1:${both.proxy.port}`
  expect((await send(own)).status).toBe(201)
  for (const port of [both.target.port, 1]) expect((await send(`http://127.0.0.1:${port}`)).status).toBe(403)
  const ws = socketTo(both.proxy, `${at}/sockets/1`, { origin: own })
  await once(ws, 'open')
  ws.terminate()
  const origin = `http://127.0.0.1:${both.target.port}`
  expect((await refusal(both.proxy, `${at}/sockets/1`, { origin })).status).toBe(403)
})

test.each(['text/plain', 'application/json'])('OPTIONS with a body of %s goes through', async (type) => {
  await using both = await createProxyFixture()
  const call = {
    method: 'OPTIONS',
    headers: { 'content-type': type, 'content-length': 3 },
    body: '[[[',
  }
  expect((await both.proxy.call(`${at}/api/echo`, call)).status).toBe(204)
})

test('a proxy route needs no key, but an allowed host and origin', async () => {
  await using both = await createProxyFixture(
    { keys: [new Secret('near')], allowedHosts: ['box.example'] },
    { keys: [new Secret('far')] },
  )
  const call = (headers: Record<string, string>) => both.proxy.call(`${at}/api/items/1`, { headers })
  expect((await call({ 'x-session-api-key': 'far' })).status).toBe(200)
  expect((await call({ 'x-session-api-key': 'near' })).status).toBe(401)
  expect((await call({ 'x-session-api-key': 'far', host: 'evil.example' })).status).toBe(403)
  const post = { method: 'POST', headers: { origin: 'https://evil.example', 'x-session-api-key': 'far' } }
  expect((await both.proxy.call(`${at}/api/echo`, post)).status).toBe(403)
  expect(both.requests).toHaveLength(2)
})

test('a proxy route that refuses replies with its Problem', async () => {
  await using both = await createProxyFixture()
  const origin = `http://localhost:${both.proxy.port}`
  const answer = await both.proxy.call('/sandboxes/none/x/api/items/1', { headers: { origin } })
  expect([answer.status, answer.text]).toEqual([404, '{"detail":"There is no such sandbox"}'])
  expect(answer.headers['access-control-allow-origin']).toBe(origin)
})

test('a proxy route without a prefix takes every path, and may answer requests itself', async () => {
  await using target = await TestServer.start(routes, new Upstream().handlers(), { sockets: [echo] })
  const { url } = target.listening
  const relay: ProxyRoute = {
    prefix: '',
    answer: ({ path, query }) =>
      path === '/own' ? { status: 302, bytes: Buffer.alloc(0), headers: { location: query } } : undefined,
    target: async () => ({ url }),
  }
  await using near = await TestServer.start({}, {}, { proxyRoutes: [relay] })
  const own = await near.call('/own?x=1')
  expect([own.status, own.headers.location]).toEqual([302, '?x=1'])
  expect((await near.call('/api/items/1?q=2')).text).toBe('{"id":"1","q":"2"}')
  expect((await near.call('/')).status).toBe(404)
  const foreign = { origin: 'https://evil.example' }
  expect((await near.call('/own', { headers: foreign })).status).toBe(403)
  expect((await refusal(near, '/sockets/1', foreign)).status).toBe(403)
  const ws = socketTo(near, '/sockets/1')
  await once(ws, 'open')
  ws.terminate()
})

test('a proxy route that throws is an internal error: 500 and a log line', async () => {
  const relay: ProxyRoute = { prefix, target: async () => ({ url: 'ftp://nobody' }) }
  await using near = await TestServer.start({}, {}, { proxyRoutes: [relay] })
  expect((await near.call(`${at}/x`)).status).toBe(500)
  expect(near.logEntries.filter(({ level }) => level === 'error')).toHaveLength(1)
})

test('an upload of 50 MB arrives whole, and a download of 200 MB', async () => {
  await using both = await createProxyFixture()
  const file = randomBytes(50_000_000)
  const form = new FormData()
  form.set('file', new Blob([file]), 'big.bin')
  const answer = await fetch(`${both.proxy.listening.url}${at}/api/upload`, { method: 'POST', body: form })
  expect(await answer.json()).toEqual({
    filename: 'big.bin',
    hash: createHash('sha256').update(file).digest('hex'),
  })
  const download = await fetch(`${both.proxy.listening.url}${at}/api/flood`)
  let sizeBytes = 0
  for await (const chunk of download.body ?? []) sizeBytes += chunk.length
  expect(sizeBytes).toBe(200 << 20)
})

test('a slow reader slows the target', async () => {
  await using both = await createProxyFixture()
  const answer = await get(both.proxy, `${at}/api/flood`)
  await settled(() => both.upstream.sentPieces.length)
  expect(both.upstream.sentPieces.length).toBeLessThan(100)
  let sizeBytes = 0
  for await (const chunk of answer) sizeBytes += chunk.length
  expect(sizeBytes).toBe(200 << 20)
})

test('a stalled reader is cut off, and the target too', async () => {
  await using both = await createProxyFixture({ stallMs: 100 })
  const answer = await get(both.proxy, `${at}/api/flood`)
  await until(() => both.upstream.endedStreams.length === 1)
  expect(both.upstream.endedStreams).toEqual([true])
  answer.on('error', () => {}).destroy()
})

test('events arrive one by one, and the target sees a disconnect', async () => {
  await using both = await createProxyFixture()
  const answer = await get(both.proxy, `${at}/api/sent`)
  expect(answer.headers['content-type']).toBe('text/event-stream')
  let text = ''
  for await (const chunk of answer) {
    text += chunk
    if (text.includes('id: 3')) break
  }
  await until(() => both.upstream.endedStreams.length === 1)
  expect(both.upstream.endedStreams).toEqual([true])
  expect(both.proxy.logEntries.filter(({ level }) => level === 'error')).toEqual([])
})

test('a disconnect while the target is silent ends the request there', async () => {
  await using both = await proxyToBytes((socket) => void socket.resume())
  const outgoing = request({ port: both.near.port, host: '127.0.0.1', path: `${at}/x`, agent: false }).end()
  outgoing.on('error', () => {})
  await until(() => both.open.size === 1)
  outgoing.destroy()
  await until(() => both.open.size === 0)
})

test('a stop cuts event streams, and lets other answers finish', async () => {
  await using both = await proxyToBytes((socket) => {
    socket.once('data', (head) => {
      if (String(head).includes('/sent'))
        socket.write('HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n')
      else setTimeout(() => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nlate'), 150)
    })
  })
  const stream = await get(both.near, `${at}/sent`)
  const cut = once(stream.resume(), 'error')
  const late = both.near.call(`${at}/late`)
  await until(() => both.open.size === 2)
  await both.near.listening.close()
  expect((await late).text).toBe('late')
  expect((await cut)[0]).toMatchObject({ code: 'ECONNRESET' })
})

const brokenUpstreams: [string, (socket: NetSocket) => void][] = [
  ['closes at once', (socket) => socket.destroy()],
  ['closes after the request', (socket) => void socket.once('data', () => socket.end())],
  ['resets', (socket) => void socket.once('data', () => socket.resetAndDestroy())],
  ['does not speak HTTP', (socket) => void socket.once('data', () => socket.end('hello\r\n\r\n'))],
  [
    'closes in its head',
    (socket) => void socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-')),
  ],
  [
    'changes the protocol unasked',
    (socket) =>
      void socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n'),
      ),
  ],
  [
    'answers with the status 000',
    (socket) =>
      void socket.once('data', () => socket.end('HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n')),
  ],
  [
    'has two framings',
    (socket) =>
      void socket.once('data', () =>
        socket.end('HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n'),
      ),
  ],
  [
    'has a head without end',
    (socket) => void socket.once('data', () => socket.write(`HTTP/1.1 200 OK\r\nX: ${'x'.repeat(100_000)}`)),
  ],
]

test.for(brokenUpstreams)(
  'a target that %s is a 502, for a short request and in the middle of a long one',
  async ([, serve]) => {
    await using both = await proxyToBytes(serve, { lingerMs: 500 })
    const short = await both.near.call(`${at}/x`)
    expect([short.status, short.text]).toEqual([
      502,
      expect.stringMatching(
        /^{"detail":"The server behind this address does not answer","error_id":"\w{16}"}$/,
      ),
    ])
    const body = Buffer.alloc(3_000_000, 0x61)
    expect((await both.near.call(`${at}/x`, { method: 'POST', body })).status).toBe(502)
    expect(both.near.logEntries.filter(({ level }) => level === 'error')).toEqual([])
  },
)

test('a missing target is a 502', async () => {
  const gone = await TestServer.start({}, {})
  await gone.listening.close()
  await using near = await TestServer.start({}, {}, { proxyRoutes: [proxyTo(gone.listening.url)] })
  expect((await near.call(`${at}/x`)).status).toBe(502)
  expect((await refusal(near, `${at}/sockets/1`)).status).toBe(502)
  const origin = `http://localhost:${near.port}`
  const headers = { origin, 'access-control-request-method': 'GET' }
  expect((await near.call(`${at}/x`, { method: 'OPTIONS', headers })).status).toBe(204)
})

test.for([
  ['told its length', 'Content-Length: 100\r\n\r\nhalf'],
  ['sends chunks', 'Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n'],
  ['sends half a chunk', 'Transfer-Encoding: chunked\r\n\r\n9\r\nhalf'],
])('a target that %s and dies in the middle cuts the client', async ([, answer]) => {
  await using both = await proxyToBytes(
    (socket) => void socket.once('data', () => socket.end(`HTTP/1.1 200 OK\r\n${answer}`)),
  )
  await expect(both.near.call(`${at}/x`)).rejects.toMatchObject({ code: 'ECONNRESET' })
})

test('a reply before the end of the request reaches the client', async () => {
  await using both = await proxyToBytes(
    (socket) => {
      socket.once('data', () => socket.write('HTTP/1.1 413 Too Much\r\nContent-Length: 2\r\n\r\nno'))
      socket.on('data', () => {})
    },
    { lingerMs: 500 },
  )
  const body = Buffer.alloc(20_000_000, 0x61)
  const answer = await both.near.call(`${at}/x`, { method: 'POST', body })
  expect([answer.status, answer.text, answer.headers.connection]).toEqual([413, 'no', 'close'])
})

test('replies pass unchanged: repeated headers, reason phrases, old framings', async () => {
  await using both = await proxyToBytes((socket) => {
    socket.once('data', () =>
      socket.end(
        'HTTP/1.0 299 Any Words\r\nX-A: 1\r\nX-A: 2\r\nKeep-Alive: 5\r\nX-Odd: \xe9\r\n\r\nto the end',
        'latin1',
      ),
    )
  })
  const text = await both.near.raw(`GET ${at}/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  expect(text).toMatch(/^HTTP\/1.1 299 Any Words\r\nX-A: 1\r\nX-A: 2\r\nX-Odd: \xe9\r\n/)
  expect(text).not.toContain('Keep-Alive: 5')
  expect(text).toContain('to the end')
})

const traversalPaths = [
  '/sandboxes/a/b/../../api/x',
  '/sandboxes/a/b/%2e%2e/x',
  '/sandboxes/a/b/.%2E/x',
  '/sandboxes/a/b/x%2f..%2fy',
  '/sandboxes/a/b/..%5cx',
  '/sandboxes/a/b/..\\x',
  '/sandboxes/a/%2e%2e/x',
  '/sandboxes/%2e/b/x',
  '/sandboxes/a%2fb/c/x',
  '/sandboxes/a%5cb/c/x',
  '/sandboxes/a/b/%zz',
  '/sandboxes/a/..',
  '/sandboxes/../a/b',
  '/sandboxes//b/x',
  '/sandboxes/a//x',
  '/sandboxes/a',
  'http://evil.example/sandboxes/a/b/../x',
]

test.for(traversalPaths)('the address %s is refused', async (address) => {
  await using both = await createProxyFixture()
  const text = await both.proxy.raw(`GET ${address} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`)
  expect(text).toMatch(/^HTTP\/1.1 (400|404) /)
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
  const socket = await both.proxy.raw(`GET ${address} HTTP/1.1\r\nHost: localhost\r\n${upgrade}\r\n`)
  expect(socket).toMatch(/^HTTP\/1.1 (400|404) /)
  expect(both.target.logEntries).toEqual([])
  expect(both.requests).toEqual([])
})

test.for([
  '/sandboxes/a/b//evil.example/x',
  '/sandboxes/a/b/http://evil.example/x',
  '/sandboxes/a/b/@evil.example',
  '/sandboxes/a/b/%2e/x',
  '/sandboxes/a/b?@evil.example/',
])('the address %s is forwarded unchanged', async (address) => {
  const heads: string[] = []
  await using both = await proxyToBytes((socket) => {
    socket.once('data', (head) => {
      heads.push(String(head).split('\r\n', 1)[0] ?? '')
      socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')
    })
  })
  expect((await both.near.call(address)).status).toBe(200)
  const path = address.slice('/sandboxes/a/b'.length)
  expect(heads).toEqual([`GET ${path.startsWith('/') ? path : `/${path}`} HTTP/1.1`])
})

test('a path in the URL of the target is a prefix', async () => {
  await using target = await TestServer.start(routes, new Upstream().handlers())
  await using near = await TestServer.start(
    {},
    {},
    { proxyRoutes: [proxyTo(`${target.listening.url}/api/`)] },
  )
  expect((await near.call(`${at}/items/1?q=2`)).text).toBe('{"id":"1","q":"2"}')
})

test('a target may listen on a Unix socket', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'relay-'))
  const web = createApp(routes, new Upstream().handlers(), { openapi: {}, log: () => {}, sockets: [echo] })
  const target = await listen(web, { socketPath: join(directory, 'x.sock'), stopMs: 100 })
  await using near = await TestServer.start({}, {}, { proxyRoutes: [proxyTo(target.url)] })
  expect((await near.call(`${at}/api/items/1`)).text).toBe('{"id":"1"}')
  expect(JSON.parse((await near.call(`${at}/api/headers`)).text)).toMatchObject({ host: 'localhost' })
  const ws = socketTo(near)
  await once(ws, 'open')
  ws.send('over a file')
  expect(String((await once(ws, 'message'))[0])).toBe('over a file')
  ws.close()
  await once(ws, 'close')
  await target.close()
  await rm(directory, { recursive: true })
})

test('a WebSocket carries messages of 1 MB both ways, many at once', async () => {
  await using both = await createProxyFixture()
  const ws = socketTo(both.proxy)
  const got: string[] = []
  ws.on('message', (data) => got.push(String(data)))
  await once(ws, 'open')
  expect(both.requests[0]).toMatchObject({ isUpgrade: true, path: '/sockets/1' })
  const sent = Array.from({ length: 10 }, (_, n) => String(n).repeat(1_000_000))
  for (const text of sent) ws.send(text)
  await until(() => got.length === sent.length)
  expect(got.every((text, index) => text === sent[index])).toBe(true)
})

test('close codes and pings pass through a relayed WebSocket', async () => {
  await using both = await createProxyFixture()
  const ws = socketTo(both.proxy)
  await once(ws, 'open')
  ws.ping('any')
  expect(String((await once(ws, 'pong'))[0])).toBe('any')
  ws.send('close me')
  const [code, reason] = await once(ws, 'close')
  expect([code, String(reason)]).toEqual([4321, 'as you wish'])
})

test('the target checks the key of a WebSocket', async () => {
  await using both = await createProxyFixture({ keys: [new Secret('near')] }, { keys: [new Secret('far')] })
  expect(await refusal(both.proxy, `${at}/sockets/1?session_api_key=near`)).toMatchObject({
    status: 403,
    text: '{"detail":"Forbidden"}',
  })
  const ws = socketTo(both.proxy, `${at}/sockets/1?session_api_key=far`)
  await once(ws, 'open')
  ws.terminate()
})

test.for([
  ['/sandboxes/none/x/sockets/1', {}, 404, 'There is no such sandbox'],
  [`${at}/sockets/refused`, {}, 403, 'Forbidden'],
  [`${at}/nothing`, {}, 404, 'Not Found'],
  [
    `${at}/sockets/1`,
    { host: 'evil.example' },
    403,
    'This host name is not allowed; SLIPWAY_ALLOWED_HOSTS names those that are, and SLIPWAY_WEB_URL (agent server) or SLIPWAY_PUBLIC_URL (sandbox server) the address of a proxy',
  ],
  [
    `${at}/sockets/1`,
    { origin: 'https://evil.example' },
    403,
    'Pages of this origin may not call this server; SLIPWAY_ALLOWED_ORIGINS names the origins that may, and SLIPWAY_WEB_URL of an agent server the address of a proxy before it',
  ],
] as const)('a WebSocket at %s with %o is refused with %i', async ([path, headers, status, detail]) => {
  await using both = await createProxyFixture()
  expect(await refusal(both.proxy, path, headers)).toMatchObject({ status, text: JSON.stringify({ detail }) })
})

test.for(brokenUpstreams.filter(([name]) => name !== 'changes the protocol unasked'))(
  'a WebSocket to a target that %s is refused with 502',
  async ([, serve]) => {
    await using both = await proxyToBytes(serve)
    expect((await refusal(both.near, `${at}/x`)).status).toBe(502)
    expect(both.near.logEntries.filter(({ level }) => level === 'error')).toEqual([])
  },
)

test('a target that disconnects during its refusal of a WebSocket is a 502', async () => {
  await using both = await proxyToBytes(
    (socket) =>
      void socket.once('data', () => socket.end('HTTP/1.1 403 No\r\nContent-Length: 9\r\n\r\nhalf')),
  )
  expect((await refusal(both.near, `${at}/x`)).status).toBe(502)
})

test.for(['Content-Length: 5\r\n', 'Transfer-Encoding: chunked\r\n'])(
  'an upgrade with a body (%j) is refused',
  async (more) => {
    await using both = await createProxyFixture()
    const head =
      'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n'
    const text = await both.proxy.raw(
      `GET ${at}/sockets/1 HTTP/1.1\r\nHost: localhost\r\n${head}${more}\r\nhello`,
    )
    expect(text).toMatch(/^HTTP\/1.1 400 /)
    expect(both.target.logEntries).toEqual([])
  },
)

test('a proxied WebSocket ends on both sides when one vanishes', async () => {
  await using both = await proxyToBytes(
    (socket) => {
      socket.once('data', () =>
        socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'),
      )
    },
    { closeMs: 50 },
  )
  const first = await openUpgrade(both.near)
  await until(() => both.open.size === 1)
  first.destroy()
  await until(() => both.open.size === 0)
  const second = await openUpgrade(both.near)
  for (const socket of both.open) socket.resetAndDestroy()
  await once(second.resume(), 'close')
})

test('a client that reads nothing is closed soon after its target', async () => {
  const connections = () => process.getActiveResourcesInfo().filter((name) => name === 'TCPSocketWrap').length
  const head = 'HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n'
  await using both = await proxyToBytes(
    (socket) => void socket.once('data', () => socket.write(head + 'x'.repeat(20_000_000))),
    { closeMs: 50 },
  )
  const before = connections()
  const client = await openUpgrade(both.near)
  await settled(() => [...both.open].reduce((sum, { writableLength }) => sum + writableLength, 0))
  for (const socket of both.open) socket.resetAndDestroy()
  await until(() => connections() <= before + 1)
  client.destroy()
})

test('a disconnect before the upgrade ends the request at the target', async () => {
  await using both = await proxyToBytes((socket) => void socket.resume())
  const ws = socketTo(both.near, `${at}/x`)
  await until(() => both.open.size === 1)
  ws.terminate()
  await until(() => both.open.size === 0)
})

test('a stop ends proxied WebSockets, also with a peer that does not read', async () => {
  const both = await createProxyFixture()
  const ws = socketTo(both.proxy)
  await once(ws, 'open')
  const closed = once(ws, 'close')
  const silent = await openUpgrade(both.proxy, `${at}/sockets/2`)
  await both.proxy.listening.close()
  expect((await closed)[0]).toBe(1006)
  silent.destroy()
  await both.target.listening.close()
})

test('checkReady is called before a proxy route', async () => {
  const paths: string[] = []
  const checkReady = (path: string) => {
    paths.push(path)
    throw new Problem('unavailable', 'not yet')
  }
  await using both = await createProxyFixture({ checkReady })
  expect((await both.proxy.call(`${at}/x?y`)).status).toBe(503)
  expect((await refusal(both.proxy, `${at}/sockets/1?y`)).status).toBe(503)
  expect(paths).toEqual([`${at}/x`, `${at}/sockets/1`])
  expect(both.requests).toEqual([])
})

function socketTo(near: TestServer, path = `${at}/sockets/1`, headers = {}): WebSocket {
  return new WebSocket(`ws://127.0.0.1:${near.port}${path}`, { headers, perMessageDeflate: false }).on(
    'error',
    () => {},
  )
}

async function refusal(
  near: TestServer,
  path: string,
  headers = {},
): Promise<{ status: number; text: string }> {
  const ws = socketTo(near, path, headers)
  const [, answer] = await once(ws, 'unexpected-response')
  const text = Buffer.concat(await answer.toArray()).toString()
  return { status: answer.statusCode, text }
}

/** A connection that has been let through and reads no more. */
async function openUpgrade(near: TestServer, path = `${at}/x`): Promise<NetSocket> {
  const socket = connect(near.port, '127.0.0.1').on('error', () => {})
  socket.write(
    `GET ${path} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n`,
  )
  await once(socket, 'readable')
  return socket
}

async function get(near: TestServer, path: string) {
  const outgoing = request({ host: '127.0.0.1', port: near.port, path, agent: false }).end()
  const [answer] = await once(outgoing, 'response')
  return answer
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 5))
}

/** Waits until a number has not changed for a while. */
async function settled(count: () => number): Promise<void> {
  for (let last = -1; last !== count(); ) {
    last = count()
    await new Promise((resolve) => setTimeout(resolve, 300))
  }
}
