import { once } from 'node:events'
import { request } from 'node:http'
import type { Route } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'
import type { Handlers } from './handler.ts'

const routes = {
  upload: { method: 'POST', path: '/api/upload', tag: 'test', summary: 'test', upload: true, responses: {} },
} as const satisfies Record<string, Route>
type Handle = Handlers<typeof routes>['upload']

const whole: Handle = async ({ upload }) => {
  const { filename, bytes } = await upload()
  const chunks: Buffer[] = []
  for await (const chunk of bytes) chunks.push(chunk)
  return { json: { filename: filename ?? null, text: Buffer.concat(chunks).toString('latin1') } }
}
const size: Handle = async ({ upload }) => {
  let sizeBytes = 0
  for await (const chunk of (await upload()).bytes) sizeBytes += chunk.length
  return { json: sizeBytes }
}

const type = { 'content-type': 'multipart/form-data; boundary=b' }

function part(disposition: string, body: string, more = ''): string {
  return `--b\r\nContent-Disposition: form-data; ${disposition}\r\n${more}\r\n${body}\r\n`
}
const file = (body: string, name = 'a.txt') => part(`name="file"; filename="${name}"`, body)
const end = '--b--\r\n'

function send(trial: TestServer, body: string | Buffer, headers: Record<string, string | number> = type) {
  return trial.call('/api/upload', { method: 'POST', headers, body: Buffer.from(body) })
}

test('the file of a form arrives with its name; other members are ignored', async () => {
  await using trial = await TestServer.start(routes, { upload: whole })
  const body =
    part('name="other"', 'x') +
    part('name="more"; filename="b"', 'y') +
    file('the\r\n--text') +
    file('second') +
    part('name="last"', 'z') +
    end
  expect(await send(trial, body)).toMatchObject({
    status: 200,
    text: '{"filename":"a.txt","text":"the\\r\\n--text"}',
  })
})

test.for([
  ['/etc/passwd', 'passwd'],
  ['../../x', 'x'],
  ['C:\\\\dir\\\\x.txt', 'x.txt'],
  ['é 日本.txt', 'é 日本.txt'],
  ['a\\"b', 'a"b'],
  ['', null],
] as const)('the file name %j becomes %j', async ([name, left]) => {
  await using trial = await TestServer.start(routes, { upload: whole })
  expect(JSON.parse((await send(trial, file('x', name) + end)).text)).toEqual({ filename: left, text: 'x' })
})

test('a file may have no name, and no bytes', async () => {
  await using trial = await TestServer.start(routes, { upload: whole })
  expect((await send(trial, part('name="file"', '') + end)).text).toBe('{"filename":null,"text":""}')
})

test('a form that fetch encodes arrives unchanged', async () => {
  await using trial = await TestServer.start(routes, { upload: whole })
  await fc.assert(
    fc.asyncProperty(
      fc.uint8Array({ maxLength: 200_000, size: 'max' }),
      fc.string({ unit: 'binary', maxLength: 20 }),
      async (bytes, other) => {
        const form = new FormData()
        form.set('other', other)
        form.set('file', new Blob([Uint8Array.from(bytes)]), 'x.bin')
        const answer = await fetch(`${trial.listening.url}/api/upload`, { method: 'POST', body: form })
        expect(await answer.json()).toEqual({
          filename: 'x.bin',
          text: Buffer.from(bytes).toString('latin1'),
        })
      },
    ),
    { numRuns: 25 },
  )
})

test.for([
  ['no member file', part('name="other"; filename="x"', 'x') + end, ['body', 'file'], 'missing'],
  ['no members', end, ['body', 'file'], 'missing'],
  ['nothing', '', ['body', 'file'], 'missing'],
  ['nonsense', 'nonsense', ['body'], 'multipart_invalid'],
  ['no end', file('x'), ['body'], 'multipart_invalid'],
  ['half a file', file('x').slice(0, -3), ['body'], 'multipart_invalid'],
  ['half a head', file('x').slice(0, 20), ['body'], 'multipart_invalid'],
  ['another boundary', file('x').replaceAll('--b', '--c'), ['body'], 'multipart_invalid'],
] as const)('a form with %s is refused with its place', async ([, body, loc, kind]) => {
  await using trial = await TestServer.start(routes, { upload: size })
  const answer = await send(trial, body)
  expect(answer.status).toBe(422)
  expect(JSON.parse(answer.text).detail).toEqual([{ loc, msg: expect.any(String), type: kind }])
  expect((await send(trial, file('x') + end)).text).toBe('1')
})

test.for([
  [{ 'content-type': 'application/json' }, 415],
  [{}, 422],
  [{ 'content-type': 'application/x-www-form-urlencoded' }, 415],
  [{ ...type, 'content-encoding': 'gzip' }, 415],
  [{ 'content-type': 'multipart/form-data' }, 422],
  [{ 'content-type': `multipart/form-data; boundary=${'b'.repeat(300)}` }, 422],
  [{ 'content-type': 'Multipart/Form-Data; boundary="b"' }, 200],
] as const)('a form sent as %o is answered with %i', async ([headers, status]) => {
  await using trial = await TestServer.start(routes, { upload: size })
  expect((await send(trial, file('x') + end, headers)).status).toBe(status)
})

test('arbitrary bytes are answered, never with 500', async () => {
  await using trial = await TestServer.start(routes, { upload: size }, { idleMs: 20_000 })
  const good = part('name="other"', 'x') + file('some text\r\n') + part('name="last"', 'y') + end
  const pieces = fc.constantFrom(
    '--b',
    '--',
    '\r\n',
    '\r',
    '\n',
    '--b--',
    'Content-Disposition: form-data; name="file"',
    ';',
    ':',
    ' ',
    '\0',
    "filename*=UTF-8''%zz",
    '"',
    'x'.repeat(100_000),
  )
  const cut = fc
    .tuple(fc.nat(good.length), fc.nat(good.length), pieces)
    .map(([from, to, piece]) => good.slice(0, from) + piece + good.slice(to))
  await fc.assert(
    fc.asyncProperty(
      fc.oneof(
        cut,
        fc.array(pieces).map((all) => all.join('')),
      ),
      async (body) => {
        const answer = await send(trial, body)
        expect([200, 422]).toContain(answer.status)
      },
    ),
    { numRuns: 300 },
  )
  expect(trial.logEntries.filter(({ level }) => level === 'error')).toEqual([])
  expect((await send(trial, file('x') + end)).text).toBe('1')
})

test.for([
  ['with its length told', { 'content-length': 0 }],
  ['in chunks', { 'transfer-encoding': 'chunked' }],
] as const)('a file above the limit, %s, is refused; one at the limit is not', async ([, framing]) => {
  await using trial = await TestServer.start(
    routes,
    { upload: size },
    { maxUploadBytes: 100_000, lingerMs: 300 },
  )
  for (const [length, status] of [
    [100_000, 200],
    [100_001, 413],
    [5_000_000, 413],
  ] as const) {
    const body = Buffer.from(file('x'.repeat(length)) + end)
    const headers =
      'content-length' in framing ? { ...type, 'content-length': body.length } : { ...type, ...framing }
    const answer = await send(trial, body, headers)
    expect(answer.status).toBe(status)
    if (status === 413) expect(answer.text).toBe('{"detail":"The file is longer than 100000 bytes"}')
  }
})

test('members that are not the file count against the limit', async () => {
  await using trial = await TestServer.start(routes, { upload: size }, { maxUploadBytes: 10, lingerMs: 300 })
  const body = part('name="other"', 'x'.repeat(3_000_000)) + file('x') + end
  expect((await send(trial, body, { ...type, 'transfer-encoding': 'chunked' })).status).toBe(413)
})

test('a slow consumer slows the client', async () => {
  const { promise: go, resolve } = Promise.withResolvers<void>()
  await using trial = await TestServer.start(
    routes,
    {
      async upload({ upload }) {
        const { bytes } = await upload()
        await go
        let sizeBytes = 0
        for await (const chunk of bytes) sizeBytes += chunk.length
        return { json: sizeBytes }
      },
    },
    // Shorter than the consumer waits, and longer than a busy machine keeps the client waiting.
    { idleMs: 400 },
  )
  const body = Buffer.from(file('x'.repeat(60_000_000)) + end)
  const outgoing = request({
    port: trial.port,
    host: '127.0.0.1',
    method: 'POST',
    path: '/api/upload',
    headers: type,
    agent: false,
  })
  let isSent = false
  outgoing.end(body, () => {
    isSent = true
  })
  await new Promise((later) => setTimeout(later, 500))
  expect(isSent).toBe(false)
  resolve()
  const [answer] = await once(outgoing, 'response')
  expect(Buffer.concat(await answer.toArray()).toString()).toBe('60000000')
})

test('a disconnect fails the file and logs no internal error', async () => {
  const { promise, resolve } = Promise.withResolvers<string>()
  await using trial = await TestServer.start(routes, {
    async upload({ upload }) {
      try {
        for await (const _ of (await upload()).bytes);
        resolve('whole')
      } catch (error) {
        resolve(error instanceof Error ? error.message : '')
        throw error
      }
      return { json: null }
    },
  })
  const outgoing = request({
    port: trial.port,
    host: '127.0.0.1',
    method: 'POST',
    path: '/api/upload',
    headers: { ...type, 'content-length': 5000 },
    agent: false,
  })
  outgoing.on('error', () => {}).write(file('x'.repeat(1000)))
  await new Promise((later) => setTimeout(later, 100))
  outgoing.destroy()
  expect(await promise).toBe('The client went away')
  expect(trial.logEntries.filter(({ level }) => level === 'error')).toEqual([])
})

test('an idle upload is cut off', async () => {
  await using trial = await TestServer.start(routes, { upload: size }, { idleMs: 100 })
  for (const start of ['', '--b\r\nContent-', file('x')]) {
    const text = await trial.raw(
      `POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type['content-type']}\r\nContent-Length: 900\r\n\r\n${start}`,
    )
    expect(text).toBe('')
  }
})

test.for([
  ['that asks for no file', async () => ({ json: 'no' })],
  ['that takes no byte of it', async ({ upload }) => ({ json: (await upload()).filename })],
  [
    'that stops in the middle',
    async ({ upload }) => {
      for await (const _ of (await upload()).bytes) return { json: 'enough' }
      return { json: null }
    },
  ],
] as [string, Handle][])('a handler %s answers while a large file is on its way', async ([, upload]) => {
  await using trial = await TestServer.start(routes, { upload }, { lingerMs: 300 })
  for (const length of [1, 20_000_000]) {
    const answer = await send(trial, file('x'.repeat(length)) + end)
    expect(answer.status).toBe(200)
  }
})

test('a connection is reusable after an upload', async () => {
  await using trial = await TestServer.start(routes, { upload: size })
  const body = file('x'.repeat(1000)) + end
  const ask = (more = '') =>
    `POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: ${type['content-type']}\r\n${more}Content-Length: ${body.length}\r\n\r\n${body}`
  const text = await trial.raw(ask() + ask() + ask('Connection: close\r\n'))
  expect(text.match(/HTTP\/1.1 200 OK/g)).toHaveLength(3)
})

test('an unread file leaves no timer', async () => {
  const timers = () => process.getActiveResourcesInfo().filter((name) => name === 'Timeout').length
  const upload: Handle = async ({ upload }) => ({ json: (await upload()).filename })
  await using trial = await TestServer.start(routes, { upload }, { idleMs: 50, lingerMs: 50 })
  await send(trial, file('x') + end)
  const before = timers()
  for (let time = 0; time < 20; time++) await send(trial, file('x'.repeat(120_000)) + end)
  while (timers() > before + 5) await new Promise((resolve) => setTimeout(resolve, 50))
})
