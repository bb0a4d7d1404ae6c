import { once } from 'node:events'
import { request } from 'node:http'
import { connect } from 'node:net'
import { networkInterfaces } from 'node:os'
import type { Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { createApp } from './app.ts'
import type { Handlers } from './core/handler.ts'
import { listen } from './listen.ts'
import { TestServer } from './testing/test-server.ts'

const plain = { method: 'GET', tag: 'test', summary: 'test', responses: {} } as const
const routes = {
  slow: { ...plain, path: '/slow' },
  stream: { ...plain, path: '/stream' },
  waiting: { ...plain, path: '/waiting' },
} as const satisfies Record<string, Route>

const handlers: Handlers<typeof routes> = {
  async slow() {
    await new Promise((resolve) => setTimeout(resolve, 100))
    return { json: 'done' }
  },
  stream: ({ signal }) => ({ contentType: 'text/event-stream', chunks: beats(signal), isEndless: true }),
  async waiting({ signal }) {
    await new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
    return { json: 'never' }
  },
}

async function* beats(signal: AbortSignal): AsyncGenerator<string> {
  while (!signal.aborted) {
    yield ': beat\n\n'
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const sockets = [
  { path: '/socket', accepts: () => true, serve: ({ signal }: { signal: AbortSignal }) => aborted(signal) },
]

async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

function silent(options: { keys?: Secret[] } = {}) {
  return createApp({}, {}, { openapi: {}, log: () => {}, ...options })
}

test('others stop while a stop waits for requests under way', async () => {
  const [arrived, finished] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const slow = async () => {
    arrived.resolve()
    await finished.promise
    return { json: 'done' }
  }
  const app = createApp(routes, { ...handlers, slow }, { log: () => {} })
  const listening = await listen(app, { host: '127.0.0.1', port: 0 })
  const answer = fetch(`${listening.url}/slow`)
  await arrived.promise
  // The request ends when the others have stopped.
  await listening.serveUntil(AbortSignal.abort(), async () => finished.resolve())
  expect((await answer).status).toBe(200)
})

test('a public host without a key is refused with instructions', async () => {
  for (const host of ['0.0.0.0', '::', '192.168.1.1', 'example.org']) {
    await expect(listen(silent(), { host, port: 0 })).rejects.toThrow(/SLIPWAY_SESSION_API_KEY/)
  }
  const listening = await listen(silent({ keys: [new Secret('k')] }), { host: '0.0.0.0', port: 0 })
  expect(listening.url).toBe(`http://0.0.0.0:${listening.port}`)
  await listening.close()
})

test('a port in use has a readable error', async () => {
  await using trial = await TestServer.start(routes, handlers)
  const second = listen(silent(), { host: '127.0.0.1', port: trial.port })
  await expect(second).rejects.toThrow(`Cannot listen on 127.0.0.1 port ${trial.port}: the port is in use`)
})

test('localhost listens on IPv4 and IPv6', async () => {
  const listening = await listen(silent(), { host: 'localhost', port: 0 })
  const hasIpv6 = Object.values(networkInterfaces()).some((own) =>
    own?.some(({ address }) => address === '::1'),
  )
  for (const host of ['localhost', '127.0.0.1', ...(hasIpv6 ? ['[::1]'] : [])])
    expect((await fetch(`http://${host}:${listening.port}/openapi.json`)).status, host).toBe(200)
  await listening.close()
})

test('a stop closes sockets with 1001, ends streams, and lets running requests finish', async () => {
  const begun = new Set<string>()
  const observed: Handlers<typeof routes> = {
    slow: (request) => {
      begun.add('slow')
      return handlers.slow(request)
    },
    stream: (request) => {
      begun.add('stream')
      return handlers.stream(request)
    },
    waiting: (request) => {
      begun.add('waiting')
      return handlers.waiting(request)
    },
  }
  const trial = await TestServer.start(routes, observed, { sockets })
  const socket = new WebSocket(`ws://127.0.0.1:${trial.port}/socket`)
  await once(socket, 'open')
  const closed = once(socket, 'close')
  const stream = trial.call('/stream')
  const waiting = trial.call('/waiting')
  const slow = trial.call('/slow')
  await expect.poll(() => begun.size, { timeout: 10_000 }).toBe(3)
  const stopped = trial.listening.close()
  expect(await slow).toMatchObject({ status: 200, text: '"done"' })
  expect((await stream).text).toMatch(/^(: beat\n\n)+$/)
  expect(await waiting).toMatchObject({
    status: 503,
    text: expect.stringContaining('"The server is stopping"'),
  })
  const [code, reason] = await closed
  expect([code, String(reason)]).toEqual([1001, 'server stopping'])
  await stopped
  await expect(trial.call('/slow')).rejects.toMatchObject({ code: 'ECONNREFUSED' })
})

test('a stop cuts requests after its limit', async () => {
  const stuck = { ...handlers, slow: () => new Promise<never>(() => {}) }
  const trial = await TestServer.start(routes, stuck, { sockets })
  const socket = connect(trial.port, '127.0.0.1')
  const key = 'dGhlIHNhbXBsZSBub25jZQ=='
  socket.write(
    `GET /socket HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: ${key}\r\nSec-WebSocket-Version: 13\r\n\r\n`,
  )
  await once(socket, 'data')
  const cut = trial.call('/slow').catch(({ code }) => code)
  await new Promise((resolve) => setTimeout(resolve, 50))
  socket.resume()
  await Promise.all([trial.listening.close(), once(socket, 'close')])
  expect(await cut).toBe('ECONNRESET')
})

test('a keep-alive connection does not delay a stop', async () => {
  const trial = await TestServer.start(routes, handlers)
  const socket = connect(trial.port, '127.0.0.1')
  socket.write('GET /slow HTTP/1.1\r\nHost: localhost\r\n\r\n')
  await once(socket, 'data')
  const closed = once(socket.resume(), 'close')
  await trial.listening.close()
  await closed
})

test('an aborted signal stops the server', async () => {
  const stop = new AbortController()
  const listening = await listen(silent(), { host: '127.0.0.1', port: 0, signal: stop.signal })
  stop.abort()
  await listening.close()
  const outgoing = request({ port: listening.port, host: '127.0.0.1' }).end()
  const [error] = await once(outgoing, 'error')
  expect(error).toMatchObject({ code: 'ECONNREFUSED' })
})
