import { once } from 'node:events'
import { request } from 'node:http'
import { Problem, type Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as z from 'zod'
import type { Handler, Handlers } from './core/handler.ts'
import { type CallOptions, TestServer } from './testing/test-server.ts'

const plain = { tag: 'test', summary: 'test', responses: {} } as const

const routes = {
  item: {
    ...plain,
    method: 'GET',
    path: '/api/items/{id}',
    params: z.object({ id: z.uuid() }),
    query: z.object({
      limit: z.coerce.number<string>().int().min(1).max(100).default(100),
      name: z.string().optional(),
      tags: z.array(z.string()).optional(),
    }),
  },
  make: {
    ...plain,
    method: 'POST',
    path: '/api/items/{id}',
    params: z.object({ id: z.uuid() }),
    body: z.object({ title: z.string() }).loose(),
  },
  list: { ...plain, method: 'GET', path: '/api/lists', body: z.array(z.string()).optional() },
  run: { ...plain, method: 'POST', path: '/api/run' },
  health: { ...plain, method: 'GET', path: '/health', open: true },
  chunks: { ...plain, method: 'GET', path: '/api/chunks' },
} as const satisfies Record<string, Route>

const handlers: Handlers<typeof routes> = {
  item: ({ params, query }) => ({ json: { params, query } }),
  make: ({ body }) => ({ status: 201, json: body }),
  list: ({ body }) => ({ json: { body: body ?? null } }),
  run: () => ({ json: { success: true } }),
  health: () => ({ bytes: Buffer.from('{"status":"ok"}') }),
  chunks: () => ({ contentType: 'application/x-ndjson', chunks: streamTexts(['one\n', 'two\n']) }),
}

async function* streamTexts(texts: readonly string[]): AsyncGenerator<string> {
  yield* texts
}

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'
const item = `/api/items/${id}`

function open(
  own: Partial<Handlers<typeof routes>> = {},
  options: Parameters<typeof TestServer.start>[2] = {},
) {
  return TestServer.start(routes, { ...handlers, ...own }, options)
}

test.for([
  ['a default stands in for what is absent', '', { limit: 100 }],
  ['of a repeated scalar the last one counts', '?limit=1&limit=7', { limit: 7 }],
  ['an array takes all values', '?tags=a&tags=b', { limit: 100, tags: ['a', 'b'] }],
  ['an array takes a single value', '?tags=a', { limit: 100, tags: ['a'] }],
  ['an unknown parameter is ignored', '?nobody=1&__proto__=2', { limit: 100 }],
  ['plus and percent are decoded', '?name=a+b%2Bc%C3%A9', { limit: 100, name: 'a b+cé' }],
  ['a blank text is a text', '?name=', { limit: 100, name: '' }],
] as const)('query: %s', async ([, search, query]) => {
  await using trial = await open()
  for (let time = 0; time < 2; time++) {
    const answer = await trial.call(item + search)
    expect(answer.status).toBe(200)
    expect(JSON.parse(answer.text)).toEqual({ params: { id }, query })
  }
})

test('issues of path, query and body are reported together with their locations', async () => {
  await using trial = await open()
  const { status, text } = await trial.call('/api/items/nobody?limit=0&tags=x')
  expect(status).toBe(422)
  const { detail } = JSON.parse(text)
  expect(detail.map((fault: { loc: unknown }) => fault.loc)).toEqual([
    ['path', 'id'],
    ['query', 'limit'],
  ])
  expect(detail[0]).toEqual({ loc: ['path', 'id'], msg: expect.any(String), type: expect.any(String) })
  const made = await trial.json('/api/items/nobody', { title: 5 })
  expect(made.status).toBe(422)
  expect(JSON.parse(made.text).detail.map((fault: { loc: unknown }) => fault.loc)).toEqual([
    ['path', 'id'],
    ['body', 'title'],
  ])
})

test('a handler cannot change the cached address', async () => {
  const seen: unknown[] = []
  await using trial = await open({
    item({ params, query }) {
      seen.push(params, query, query.tags)
      return { json: null }
    },
  })
  await trial.call(`${item}?tags=a`)
  expect(seen.every((value) => Object.isFrozen(value))).toBe(true)
})

test.for([
  ['/api/items/%zz', 400],
  ['/api/items/%ff', 400],
  [`${item}?name=%zz`, 200],
  ['//', 404],
  ['/api/nothing', 404],
  [`/api/items/${'x'.repeat(9000)}`, 400],
] as const)('the address %s is answered with JSON and %i', async ([path, status]) => {
  await using trial = await open()
  const answer = await trial.call(path)
  expect(answer.status).toBe(status)
  expect(answer.headers['content-type']).toBe('application/json')
  expect(JSON.parse(answer.text)).toBeTypeOf('object')
})

test('an unknown path is 404 with the detail Not Found', async () => {
  await using trial = await open()
  expect((await trial.call('/api/nothing')).text).toBe('{"detail":"Not Found"}')
})

test.for(['DELETE', 'PUT', 'PATCH', 'TRACE'])(
  'a known path refuses %s and lists its methods',
  async (method) => {
    await using trial = await open()
    const { status, headers, text } = await trial.call(item, { method })
    expect([status, headers.allow]).toEqual([405, 'GET, HEAD, POST, OPTIONS'])
    expect(text).toBe('{"detail":"Method Not Allowed"}')
  },
)

test('HEAD has the head of GET', async () => {
  await using trial = await open()
  for (const path of [item, '/health', '/api/chunks', '/openapi.json', '/api/items/x']) {
    const get = await trial.call(path)
    const head = await trial.call(path, { method: 'HEAD' })
    expect([head.status, head.text]).toEqual([get.status, ''])
    expect(head.headers['content-length']).toBe(get.headers['content-length'])
    expect(head.headers['content-type']).toBe(get.headers['content-type'])
  }
})

test('a trailing slash makes no difference', async () => {
  await using trial = await open()
  expect((await trial.call(`${item}/`)).status).toBe(200)
})

test('a GET may have a body where the route declares one', async () => {
  await using trial = await open()
  const list = (body: unknown) => trial.json('/api/lists', body, { method: 'GET' })
  expect((await list(['a', 'b'])).text).toBe('{"body":["a","b"]}')
  expect((await trial.call('/api/lists')).text).toBe('{"body":null}')
  expect((await list({})).status).toBe(422)
  expect((await trial.json(item, { any: 'thing' }, { method: 'GET' })).status).toBe(200)
})

const json = { 'content-type': 'application/json' }
test.for<[string, CallOptions['body'] & {}, (string | number)[]]>([
  ['an empty body', '', ['body']],
  ['broken JSON', '{"title":', ['body']],
  ['bytes that are not UTF-8', Buffer.from([0x22, 0xff, 0x22]), ['body']],
  ['501 levels', `{"title":"x","a":${'['.repeat(500)}${']'.repeat(500)}}`, ['body']],
  ['a million levels', '['.repeat(1_000_000), ['body']],
  ['a member __proto__', '{"title":"x","__proto__":{"a":1}}', ['body']],
  ['a member twice', '{"title":"x","a":[{"b":1,"b":2}]}', ['body', 'a', 0, 'b']],
  ['the same, escaped', '{"title":"x","\\u005f_pr\\u006fto__":1}', ['body']],
  ['a missing member', '{}', ['body', 'title']],
])('body: %s is refused', async ([, body, loc]) => {
  await using trial = await open()
  const answer = await trial.call(item, { method: 'POST', headers: json, body })
  expect(answer.status).toBe(422)
  expect(JSON.parse(answer.text).detail[0].loc).toEqual(loc)
})

test.for([
  ['500 levels', `{"title":"[[[\\"{{{","a":${'['.repeat(499)}${']'.repeat(499)}}`],
  ['a member constructor', '{"title":"x","constructor":{"prototype":{"a":1}}}'],
  ['the name __proto__ in a text', '{"title":"__proto__ \\u005f"}'],
] as const)('body: %s is passed unchanged', async ([, body]) => {
  await using trial = await open()
  const answer = await trial.call(item, { method: 'POST', headers: json, body })
  expect(answer.status).toBe(201)
  expect(JSON.parse(answer.text)).toEqual(JSON.parse(body))
  expect(Object.hasOwn(Object.prototype, 'a')).toBe(false)
})

test('any JSON object goes through unchanged', async () => {
  await using trial = await open()
  const object = fc
    .dictionary(fc.string(), fc.jsonValue())
    .filter((value) => !JSON.stringify(value).includes('__proto__'))
  await fc.assert(
    fc.asyncProperty(object, async (value) => {
      const sent = { ...value, title: 'x' }
      const { status, text } = await trial.json(item, sent)
      expect([status, JSON.parse(text)]).toEqual([201, JSON.parse(JSON.stringify(sent))])
    }),
    { numRuns: 50 },
  )
})

test.for([
  [{ 'content-type': 'text/plain' }, 415],
  [{ 'content-type': 'application/x-www-form-urlencoded' }, 415],
  [{}, 415],
  [{ 'content-type': 'application/json', 'content-encoding': 'gzip' }, 415],
  [{ 'content-type': 'application/merge-patch+json; charset=utf-8' }, 201],
  [{ 'content-type': 'APPLICATION/JSON;charset=utf-8' }, 201],
] as const)('a body sent as %o is answered with %i', async ([headers, status]) => {
  await using trial = await open()
  const answer = await trial.call(item, { method: 'POST', headers, body: '{"title":"x"}' })
  expect(answer.status).toBe(status)
})

test('a route without a body discards one and keeps the connection', async () => {
  await using trial = await open()
  const ask = (body: string) =>
    `POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Type: nonsense\r\n${body}`
  const text = await trial.raw(
    `${ask('Content-Length: 3\r\n\r\n???')}${ask('\r\n')}${ask('Transfer-Encoding: chunked\r\n\r\n2\r\n??\r\n0\r\n\r\n')}` +
      'GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n',
  )
  expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(4)
})

test.for([
  ['with its length told', (size: number) => ({ 'content-length': size })],
  ['in chunks', () => ({ 'transfer-encoding': 'chunked' })],
] as const)(
  'a body above the limit, %s, is answered with 413 while it is being sent',
  async ([, framing]) => {
    await using trial = await open({}, { maxBodyBytes: 1000 })
    const size = 5_000_000
    const headers = { ...json, ...framing(size) }
    for (const path of [item, '/api/run']) {
      const answer = await trial.call(path, { method: 'POST', headers, body: Buffer.alloc(size, 0x20) })
      expect([answer.status, answer.headers.connection]).toEqual([413, 'close'])
      expect(JSON.parse(answer.text)).toEqual({ detail: 'The body is longer than 1000 bytes' })
    }
  },
)

test('a body that arrives too slowly is answered with 408', async () => {
  await using trial = await open({}, { bodyTimeoutMs: 50, lingerMs: 50 })
  const text = await trial.raw(`POST /api/run HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n12`)
  expect(text).toMatch(/^HTTP\/1.1 408 Request Timeout\r\n[\s\S]*\{"detail":"Request Timeout"\}$/)
})

test('a head that arrives too slowly is answered with 408', async () => {
  await using trial = await open({}, { headersTimeoutMs: 100 })
  expect(await trial.raw('GET /health HTTP/1.1\r\nHost: loc')).toMatch(
    /^HTTP\/1.1 408 [\s\S]*\{"detail":"Request Timeout"\}$/,
  )
})

test.for([
  ['what is not HTTP', 'nonsense\r\n\r\n', 400, 'Bad Request'],
  [
    'a head of 32 KiB',
    `GET / HTTP/1.1\r\nX: ${'x'.repeat(32_768)}\r\n\r\n`,
    431,
    'Request Header Fields Too Large',
  ],
] as const)('%s is answered with JSON', async ([, bytes, status, detail]) => {
  await using trial = await open()
  expect(await trial.raw(bytes)).toMatch(
    new RegExp(`^HTTP/1.1 ${status} [\\s\\S]*\\{"detail":"${detail}"\\}$`),
  )
})

const codes = [
  ['bad_request', 400],
  ['unauthorized', 401],
  ['forbidden', 403],
  ['not_found', 404],
  ['method_not_allowed', 405],
  ['conflict', 409],
  ['busy', 409],
  ['too_large', 413],
  ['unsupported_media_type', 415],
  ['invalid', 422],
  ['too_many', 429],
  ['run_failed', 500],
  ['bad_gateway', 502],
  ['timeout', 504],
  ['unavailable', 503],
  ['storage_full', 507],
] as const

test('each code of a Problem has its status, also when it is thrown later', async () => {
  for (const [code, status] of codes) {
    const throwing: Handler<typeof routes.run> = async () => {
      await new Promise(setImmediate)
      throw new Problem(code, 'because')
    }
    await using trial = await open({ run: throwing })
    const answer = await trial.call('/api/run', { method: 'POST' })
    const { error_id, ...body } = JSON.parse(answer.text)
    expect([answer.status, body]).toEqual([status, { detail: 'because' }])
    expect(answer.headers['retry-after']).toBe(code === 'too_many' ? '1' : undefined)
    // What is not the caller's fault is told to the log, once, under the id that the caller is given.
    const told = trial.logEntries.filter(({ members }) => members?.error_id !== undefined)
    expect(told.map(({ members }) => members?.error_id)).toEqual(status < 500 ? [] : [error_id])
    if (status >= 500) expect(told[0]?.members?.error).toContain('because')
  }
})

test.for([true, false])(
  'an internal error is a 500 without details and a log line with its id',
  async (isLate) => {
    await using trial = await open({
      run() {
        const error = new Error('the reason', { cause: new Error('the cause') })
        if (isLate) return Promise.reject(error)
        throw error
      },
    })
    const { status, text } = await trial.call('/api/run?session_api_key=hidden', { method: 'POST' })
    expect(status).toBe(500)
    const body = JSON.parse(text)
    expect(body).toEqual({
      detail: 'Internal Server Error',
      error_id: expect.stringMatching(/^[0-9a-f]{16}$/),
    })
    const lines = trial.logEntries.filter(({ level }) => level === 'error')
    expect(lines).toHaveLength(1)
    expect(lines[0]?.members).toMatchObject({ error_id: body.error_id, method: 'POST', route: '/api/run' })
    expect(lines[0]?.members?.error).toMatch(/the reason[\s\S]*caused by: Error: the cause/)
    expect(JSON.stringify(trial.logEntries)).not.toContain('hidden')
  },
)

test('a request is one debug line with its route and without its address', async () => {
  await using trial = await open()
  await trial.call(`${item}?name=private`)
  const members = { method: 'GET', route: '/api/items/{id}', status: 200, duration_ms: expect.any(Number) }
  expect(trial.logEntries).toEqual([{ level: 'debug', message: 'request', members }])
})

test('bytes are sent unchanged, with the status, type and headers of the handler', async () => {
  const bytes = Buffer.from('é\n')
  await using trial = await open({
    run: () => ({
      status: 202,
      bytes,
      contentType: 'text/plain',
      headers: { etag: '"1"', 'cache-control': 'no-cache' },
    }),
    health: () => ({ status: 304, bytes: Buffer.alloc(0), headers: { etag: '"1"' } }),
  })
  const { status, headers, text } = await trial.call('/api/run', { method: 'POST' })
  expect([status, text]).toEqual([202, 'é\n'])
  expect(headers).toMatchObject({
    'content-type': 'text/plain',
    'content-length': '3',
    'cache-control': 'no-cache',
    etag: '"1"',
  })
  const unchanged = await trial.call('/health')
  expect([unchanged.status, unchanged.headers.etag]).toEqual([304, '"1"'])
  expect(unchanged.headers['content-type']).toBeUndefined()
})

test('replies are not cacheable unless the handler allows it', async () => {
  await using trial = await open()
  expect((await trial.call(item)).headers['cache-control']).toBe('no-store')
})

test('a stream is sent in order, with backpressure', async () => {
  const chunk = Buffer.alloc(1 << 20, 0x61)
  let made = 0
  async function* many() {
    for (; made < 64; made++) yield chunk
  }
  await using trial = await open({ chunks: () => ({ contentType: 'text/plain', chunks: many() }) })
  const answer = await get(trial, '/api/chunks')
  await new Promise((resolve) => setTimeout(resolve, 100))
  expect(made).toBeLessThan(64)
  let size = 0
  for await (const piece of answer) size += piece.length
  expect([made, size]).toEqual([64, 64 << 20])
})

test('a stream that fails before its first chunk is answered with a status', async () => {
  await using trial = await open({ chunks: () => ({ contentType: 'text/plain', chunks: failAfter(0) }) })
  expect(await trial.call('/api/chunks')).toMatchObject({ status: 409, text: '{"detail":"no more"}' })
})

test('a stream that fails after its first chunk is cut', async () => {
  await using trial = await open({ chunks: () => ({ contentType: 'text/plain', chunks: failAfter(3) }) })
  await expect(trial.call('/api/chunks')).rejects.toMatchObject({ code: 'ECONNRESET' })
})

async function* failAfter(after: number): AsyncGenerator<string> {
  for (let n = 0; n < after; n++) yield 'some text\n'
  throw new Problem('conflict', 'no more')
}

test('a disconnect ends the stream and aborts the signal', async () => {
  const { promise: ended, resolve } = Promise.withResolvers<boolean>()
  await using trial = await open({
    chunks: ({ signal }) => ({ contentType: 'text/plain', chunks: endless(signal, resolve) }),
  })
  const answer = await get(trial, '/api/chunks')
  await once(answer, 'data')
  answer.destroy()
  expect(await ended).toBe(true)
  expect(trial.logEntries.filter(({ level }) => level === 'error')).toEqual([])
})

test('a stalled reader of a stream is cut off, a waiting one is not', async () => {
  const { promise: ended, resolve } = Promise.withResolvers<boolean>()
  async function* late() {
    yield 'first\n'
    await new Promise((later) => setTimeout(later, 150))
    yield 'last\n'
  }
  await using trial = await open(
    {
      chunks: ({ header, signal }) => ({
        contentType: 'text/plain',
        chunks: header('x-late') === undefined ? flood(signal, resolve) : late(),
      }),
    },
    { stallMs: 50 },
  )
  expect((await trial.call('/api/chunks', { headers: { 'x-late': '1' } })).text).toBe('first\nlast\n')
  expect(trial.logEntries.filter(({ level }) => level === 'warn')).toEqual([])
  const answer = await get(trial, '/api/chunks')
  expect(await ended).toBe(true)
  expect(trial.logEntries.filter(({ level }) => level === 'warn')).toMatchObject([
    { message: expect.stringContaining('read nothing'), members: { route: '/api/chunks', stalled_ms: 50 } },
  ])
  answer.on('error', () => {}).destroy()
})

async function* flood(signal: AbortSignal, ended: (isAborted: boolean) => void): AsyncGenerator<Buffer> {
  try {
    for (;;) yield Buffer.alloc(1 << 20)
  } finally {
    ended(signal.aborted)
  }
}

async function* endless(signal: AbortSignal, ended: (isAborted: boolean) => void): AsyncGenerator<string> {
  try {
    for (;;) {
      yield 'tick\n'
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
  } finally {
    ended(signal.aborted)
  }
}

test('the signal of a request that was answered never aborts', async () => {
  const signals: AbortSignal[] = []
  await using trial = await open({
    run({ signal }) {
      signals.push(signal)
      return { json: 1 }
    },
  })
  await trial.call('/api/run', { method: 'POST' })
  await trial.listening.close()
  expect(signals.map(({ aborted }) => aborted)).toEqual([false])
})

test('header names are found in any case', async () => {
  await using trial = await open({
    run: ({ header }) => ({ json: [header('X-Thing'), header('x-none') ?? null] }),
  })
  expect((await trial.call('/api/run', { method: 'POST', headers: { 'x-thing': 'v' } })).text).toBe(
    '["v",null]',
  )
})

test('the API description is served as JSON and as a page with its files', async () => {
  await using trial = await open()
  expect((await trial.call('/openapi.json')).text).toBe('{"openapi":"3.1.0"}')
  expect((await trial.call('/redoc')).headers.location).toBe('docs')
  const page = await trial.call('/docs')
  expect([page.status, page.headers['content-type']]).toEqual([200, 'text/html; charset=utf-8'])
  const links = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, link]) => link ?? '')
  expect(links.length).toBeGreaterThan(2)
  for (const link of links) {
    const { pathname, hostname } = new URL(link, `${trial.listening.url}/docs`)
    expect(hostname).toBe('127.0.0.1')
    expect((await trial.call(pathname)).status).toBe(200)
  }
})

test('with keys, the API description and unknown paths need one too', async () => {
  await using trial = await open({}, { keys: [new Secret('k1')] })
  for (const path of ['/openapi.json', '/docs', '/redoc', '/nothing', item]) {
    expect(await trial.call(path)).toMatchObject({ status: 401, text: '{"detail":"Unauthorized"}' })
  }
  expect((await trial.call('/health')).status).toBe(200)
})

async function get(trial: TestServer, path: string) {
  const outgoing = request({ host: '127.0.0.1', port: trial.port, path, agent: false }).end()
  const [answer] = await once(outgoing, 'response')
  return answer
}
