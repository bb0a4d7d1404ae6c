import { once } from 'node:events'
import { request } from 'node:http'
import { gzipSync } from 'node:zlib'
import { invalidInput, type Route } from '@slipway/protocol'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { TestServer } from '../testing/test-server.ts'
import type { Handlers } from './handler.ts'

const routes = {
  upload: {
    method: 'POST',
    path: '/api/upload',
    tag: 'test',
    summary: 'test',
    stream: 'application/x-ndjson',
    responses: {},
  },
} as const satisfies Record<string, Route>

const size: Handlers<typeof routes>['upload'] = async ({ stream }) => {
  let sizeBytes = 0
  for await (const chunk of stream) sizeBytes += chunk.length
  return { json: sizeBytes }
}

const lines = { 'content-type': 'application/x-ndjson' }

test('a stream has no limit of size', async () => {
  await using trial = await TestServer.start(routes, { upload: size }, { maxBodyBytes: 1000 })
  const body = Buffer.alloc(20_000_000, 0x61)
  const answer = await trial.call('/api/upload', { method: 'POST', headers: lines, body })
  expect([answer.status, answer.text]).toEqual([200, '20000000'])
})

test('a stream without a body is empty', async () => {
  await using trial = await TestServer.start(routes, { upload: size })
  expect((await trial.call('/api/upload', { method: 'POST', headers: lines })).text).toBe('0')
})

test.for([
  ['application/x-ndjson; charset=utf-8', 200],
  ['application/ndjson', 200],
  ['application/jsonl', 200],
  ['application/json', 415],
  ['text/plain', 415],
] as const)('a stream of lines sent as %s is answered with %i', async ([type, status]) => {
  await using trial = await TestServer.start(routes, { upload: size })
  const call = { method: 'POST', headers: { 'content-type': type }, body: '{}\n' }
  expect((await trial.call('/api/upload', call)).status).toBe(status)
})

test('a compressed stream is decompressed as it arrives', async () => {
  await using trial = await TestServer.start(routes, { upload: size })
  const body = gzipSync(Buffer.alloc(5_000_000, 0x61))
  const headers = { ...lines, 'content-encoding': 'gzip' }
  const answer = await trial.call('/api/upload', { method: 'POST', headers, body })
  expect(answer.text).toBe('5000000')
})

test.for([
  ['what is not gzip', 'gzip', Buffer.from('nonsense'), 422],
  ['half of a gzip file', 'gzip', gzipSync('some text that is long enough').subarray(0, 25), 422],
  ['an unknown encoding', 'br', Buffer.from('x'), 415],
] as const)('%s is refused', async ([, encoding, body, status]) => {
  await using trial = await TestServer.start(routes, { upload: size })
  const headers = { ...lines, 'content-encoding': encoding }
  expect((await trial.call('/api/upload', { method: 'POST', headers, body })).status).toBe(status)
})

test('an error in the middle of an endless upload reaches the client', async () => {
  await using trial = await TestServer.start(
    routes,
    {
      async upload({ stream }) {
        for await (const chunk of stream) if (chunk.length > 0) throw invalidInput(['body', 'line 1'], 'no')
        return { json: null }
      },
    },
    { lingerMs: 300 },
  )
  for (const encoding of ['identity', 'gzip']) {
    const headers = { ...lines, 'content-encoding': encoding }
    const outgoing = request({
      host: '127.0.0.1',
      port: trial.port,
      path: '/api/upload',
      method: 'POST',
      headers,
      agent: false,
    })
    const closed = once(outgoing, 'close')
    outgoing.on('error', () => {})
    const chunk = encoding === 'gzip' ? gzipSync(Buffer.alloc(1 << 16)) : Buffer.alloc(1 << 16)
    const more = () => {
      while (!outgoing.destroyed && outgoing.write(chunk));
    }
    outgoing.on('drain', more)
    more()
    const [answer] = await once(outgoing, 'response')
    expect([answer.statusCode, answer.headers.connection]).toEqual([422, 'close'])
    let text = ''
    for await (const piece of answer) {
      text += piece
      if (text.endsWith('}]}')) break
    }
    expect(JSON.parse(text)).toEqual({
      detail: [{ loc: ['body', 'line 1'], msg: 'no', type: 'value_error' }],
    })
    await closed
  }
})

test('a disconnect fails the stream and aborts the signal', async () => {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  await using trial = await TestServer.start(routes, {
    async upload({ stream, signal }) {
      try {
        for await (const _chunk of stream);
      } catch (error) {
        await new Promise((later) => setTimeout(later, 10))
        resolve([error instanceof Error, signal.aborted])
        throw error
      }
      return { json: null }
    },
  })
  const outgoing = request({
    host: '127.0.0.1',
    port: trial.port,
    path: '/api/upload',
    method: 'POST',
    headers: lines,
    agent: false,
  })
  outgoing.on('error', () => {}).write('some bytes')
  setTimeout(() => outgoing.destroy(), 50)
  expect(await promise).toEqual([true, true])
  expect(trial.logEntries.filter(({ level }) => level === 'error')).toEqual([])
})

test('an idle client is cut off', async () => {
  await using trial = await TestServer.start(routes, { upload: size }, { idleMs: 100 })
  const head =
    'POST /api/upload HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/jsonl\r\nContent-Length: 9\r\n\r\n'
  expect(await trial.raw(`${head}12345`)).toBe('')
})

test('a client that waits for the server is not cut off', async () => {
  const clock = new FakeClock()
  await using trial = await TestServer.start(
    routes,
    {
      async upload({ stream }) {
        let sizeBytes = 0
        for await (const chunk of stream) {
          if (sizeBytes === 0) await clock.advance(180_000)
          sizeBytes += chunk.length
        }
        return { json: sizeBytes }
      },
    },
    { clock },
  )
  const body = Buffer.alloc(8_000_000, 0x61)
  expect((await trial.call('/api/upload', { method: 'POST', headers: lines, body })).text).toBe('8000000')
})
