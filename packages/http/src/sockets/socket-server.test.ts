import { once } from 'node:events'
import { Secret } from '@slipway/shared/redaction'
import { FakeClock } from '@slipway/shared/time/testing'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { AppOptions } from '../app.ts'
import type { Socket, SocketRequest, SocketRoute } from '../core/handler.ts'
import { silentPeer } from '../testing/silent-peer.ts'
import { TestServer } from '../testing/test-server.ts'
import { createFrame } from './frame.ts'

type Serve = SocketRoute['serve']

const closed: Serve = async ({ signal }) => {
  if (!signal.aborted) await once(signal, 'abort')
}
/** Answers each message with itself. */
const echo: Serve = async (socket) => {
  socket.onMessage(async (text) => socket.send([createFrame(Buffer.from(text))]))
  await closed(socket, request)
}
const request: SocketRequest = { params: {}, query: {}, header: () => undefined }

function open(serve: Serve, options: Partial<AppOptions> = {}, accepts: SocketRoute['accepts'] = () => true) {
  return TestServer.start({}, {}, { sockets: [{ path: '/sockets/{id}/events', accepts, serve }], ...options })
}

interface Peer {
  readonly ws: WebSocket
  readonly texts: string[]
  readonly closed: Promise<readonly [code: number, reason: string]>
  /** The next message that has not been read yet. */
  next(): Promise<string>
}

function peer(trial: TestServer, path = '/sockets/c1/events', headers: Record<string, string> = {}): Peer {
  const ws = new WebSocket(`ws://127.0.0.1:${trial.port}${path}`, { headers, perMessageDeflate: true })
  const texts: string[] = []
  let read = 0
  let wake = () => {}
  ws.on('message', (data) => {
    texts.push(String(data))
    wake()
  })
  const closed = new Promise<readonly [number, string]>((resolve) => {
    ws.on('error', () => {}).on('close', (code, reason) => resolve([code, String(reason)]))
  })
  const next = async () => {
    while (texts.length <= read) {
      await new Promise<void>((resolve) => {
        wake = resolve
      })
    }
    return texts[read++] ?? ''
  }
  return { ws, texts, closed, next }
}

/** The status of a refused upgrade. */
async function upgradeStatus(
  trial: TestServer,
  path: string,
  headers: Record<string, string> = {},
): Promise<number> {
  const { ws } = peer(trial, path, headers)
  const [, { statusCode }] = await once(ws, 'unexpected-response')
  return statusCode
}

const keys = [new Secret('k1')]
const auth = (key: unknown, more = {}) => JSON.stringify({ type: 'auth', session_api_key: key, ...more })

test('a message comes back, and so does one of any length', async () => {
  await using trial = await open(echo)
  const { ws, next } = peer(trial)
  await once(ws, 'open')
  for (const length of [0, 1, 125, 126, 65_534, 65_535, 65_536, 131_070, 131_071, 3_000_000]) {
    const text = 'é'.repeat(length >> 1) + 'x'.repeat(length & 1)
    ws.send(text)
    expect((await next()) === text).toBe(true)
  }
})

test('frames of one call and of many calls at once arrive in order', async () => {
  await using trial = await open(async (socket) => {
    await socket.send(['a', 'b'.repeat(100_000), 'c'].map((text) => createFrame(Buffer.from(text))))
    await Promise.all([...'defg'].map((text) => socket.send([createFrame(Buffer.from(text.repeat(70_000)))])))
    await socket.send([createFrame(Buffer.from('end'))])
  })
  const { texts, closed } = peer(trial)
  expect(await closed).toEqual([1000, ''])
  expect(texts.map((text) => text[0]).join('')).toBe('abcdefge')
})

test('any text is echoed unchanged', async () => {
  await using trial = await open(echo)
  const { ws, next } = peer(trial)
  await once(ws, 'open')
  await fc.assert(
    fc.asyncProperty(fc.array(fc.string({ unit: 'grapheme' })), async (texts) => {
      for (const text of texts) ws.send(text)
      for (const text of texts) expect(await next()).toBe(text)
    }),
  )
})

test('a frame has the length of its payload in bytes', () => {
  expect(createFrame(Buffer.from('é')).size).toBe(2)
  expect(createFrame(Buffer.alloc(200_000)).size).toBe(200_000)
})

test('the route gets its parameters, the last of repeated ones, headers, and never the key', async () => {
  const seen: unknown[] = []
  await using trial = await open(
    async (_socket, { params, query, header }) => void seen.push(params, query, header('X-A')),
    { keys },
  )
  const { closed } = peer(trial, '/sockets/a%20b/events?x=1&x=2&session_api_key=k1', { 'x-a': 'v' })
  await closed
  expect(seen).toEqual([{ id: 'a b' }, { x: '2' }, 'v'])
})

test.for([
  ['/sockets/c1', 404],
  ['/sockets/c1/events/more', 404],
  ['/sockets/%zz/events', 404],
  ['/openapi.json', 404],
  ['/sockets/refused/events', 403],
] as const)('an upgrade of %s is refused with %i', async ([path, status]) => {
  await using trial = await open(echo, {}, ({ params }) => params.id !== 'refused')
  expect(await upgradeStatus(trial, path)).toBe(status)
})

test('a request to upgrade to another protocol is an ordinary request', async () => {
  await using trial = await open(echo)
  const headers = { connection: 'upgrade', upgrade: 'h2c' }
  expect((await trial.call('/openapi.json', { headers })).status).toBe(200)
})

const path = '/sockets/c1/events'
test.for([
  ['a valid key in the query', `${path}?session_api_key=k1`, {}, 101],
  ['a valid key in the header', path, { 'x-session-api-key': 'k1' }, 101],
  ['the query before the header', `${path}?session_api_key=k1`, { 'x-session-api-key': 'bad' }, 101],
  ['the query before the header', `${path}?session_api_key=bad`, { 'x-session-api-key': 'k1' }, 403],
  ['a wrong key in the query', `${path}?session_api_key=bad`, {}, 403],
  ['an empty key in the query', `${path}?session_api_key=`, {}, 403],
  ['a wrong key in the header', path, { 'x-session-api-key': 'bad' }, 403],
] as const)('with keys, %s: %s %o is answered with %i', async ([, address, headers, status]) => {
  await using trial = await open(echo, { keys })
  if (status === 403) return expect(await upgradeStatus(trial, address, headers)).toBe(403)
  const { ws, next } = peer(trial, address, headers)
  await once(ws, 'open')
  ws.send('hello')
  expect(await next()).toBe('hello')
})

test('without keys, any key is accepted', async () => {
  await using trial = await open(echo)
  const { ws } = peer(trial, `${path}?session_api_key=any`)
  await once(ws, 'open')
})

test('the first frame may carry the key, followed by messages', async () => {
  await using trial = await open(echo, { keys })
  const { ws, next } = peer(trial)
  await once(ws, 'open')
  ws.send(auth('k1'))
  ws.send('hello')
  expect(await next()).toBe('hello')
})

test.for([
  ['a wrong key', auth('bad')],
  ['a key that is no text', auth(1)],
  ['no key', '{"type":"auth"}'],
  ['another type', '{"type":"other","session_api_key":"k1"}'],
  ['more members', auth('k1', { more: 1 })],
  ['broken JSON', '{"type":"auth"'],
  ['no object', '["auth"]'],
  ['null', 'null'],
  ['a message', 'hello'],
  ['bytes', Buffer.from(auth('k1'))],
] as const)('a first frame with %s closes with 4001', async ([, data]) => {
  const served: string[] = []
  await using trial = await open(async () => void served.push('once'), { keys })
  const { ws, closed } = peer(trial)
  await once(ws, 'open')
  ws.send(data)
  expect(await closed).toEqual([4001, 'Authentication failed'])
  expect(served).toEqual([])
})

test('a socket without a key sends 64 KiB at most; with it, as much as a message may have', async () => {
  await using trial = await open(echo, { keys })
  const stranger = peer(trial)
  await once(stranger.ws, 'open')
  stranger.ws.send('x'.repeat(1_000_000))
  expect((await stranger.closed)[0]).toBe(1006)
  const { ws, next } = peer(trial)
  await once(ws, 'open')
  const long = 'x'.repeat(500_000)
  ws.send(auth('k1'))
  ws.send(long)
  expect((await next()) === long).toBe(true)
  ws.terminate()
})

test('sockets without a key are limited, those with a key are not counted', async () => {
  await using trial = await open(echo, { keys, maxUnauthorizedSockets: 2 })
  const known = peer(trial)
  await once(known.ws, 'open')
  known.ws.send(auth('k1'))
  known.ws.send('a')
  expect(await known.next()).toBe('a')
  const waiting = [peer(trial), peer(trial)] as const
  await Promise.all(waiting.map(({ ws }) => once(ws, 'open')))
  expect(await peer(trial).closed).toEqual([1013, 'too many sockets without a key'])
  expect((await once(peer(trial, '/sockets/c1/events?session_api_key=k1').ws, 'open')).length).toBe(0)
  waiting[0].ws.send(auth('wrong'))
  expect((await waiting[0].closed)[0]).toBe(4001)
  // The server may see the close after the peer.
  const answer = async () => {
    const next = peer(trial)
    await once(next.ws, 'open')
    next.ws.send(auth('k1'))
    next.ws.send('b')
    return await Promise.race([next.next(), next.closed])
  }
  await expect.poll(answer, { timeout: 20_000 }).toBe('b')
})

test('a refused socket sends no more than one that waits for its key', async () => {
  await using trial = await open(echo, { keys, maxUnauthorizedSockets: 1, closeMs: 60_000 })
  const waiting = await silentPeer(trial, path)
  const refused = await silentPeer(trial, path)
  const closed = [waiting, refused].map(
    (socket) => new Promise((resolve) => void socket.once('close', resolve)),
  )
  // A masked frame of 8 MiB that never ends.
  const head = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0x80, 0, 0, 1, 2, 3, 4])
  for (const socket of [waiting, refused]) {
    socket.resume()
    socket.write(head)
    socket.write(Buffer.alloc(500_000))
  }
  await Promise.all(closed)
})

test('a late first frame closes with 4001', async () => {
  const clock = new FakeClock()
  await using trial = await open(echo, { keys, clock })
  const late = peer(trial)
  await clock.untilWaiting(10_000)
  await clock.advance(9_999)
  await expectOpen(late)
  await clock.advance(1)
  expect(await late.closed).toEqual([4001, 'Authentication failed'])
})

test.for([{ keys }, {}])('later auth frames are no messages, with and without keys', async (options) => {
  await using trial = await open(echo, options)
  const { ws, next } = peer(trial, path, { 'x-session-api-key': 'k1' })
  await once(ws, 'open')
  for (const text of [auth('k1'), auth('bad'), '{"type":"auth"}', auth('k1', { role: 'user' }), '"auth"'])
    ws.send(text)
  expect(await next()).toBe(auth('k1', { role: 'user' }))
  expect(await next()).toBe('"auth"')
})

test('messages are handled one at a time, in order', async () => {
  const received: string[] = []
  let atOnce = 0
  let most = 0
  await using trial = await open(async (socket) => {
    socket.onMessage(async (text) => {
      most = Math.max(most, ++atOnce)
      await new Promise((resolve) => setTimeout(resolve, 1))
      received.push(text)
      atOnce--
      if (received.length === 100) socket.close(4000, 'enough')
    })
    await closed(socket, request)
  })
  const { ws, closed: end } = peer(trial)
  await once(ws, 'open')
  const sent = Array.from({ length: 100 }, (_, index) => String(index))
  for (const text of sent) ws.send(text)
  expect(await end).toEqual([4000, 'enough'])
  expect([most, received]).toEqual([1, sent])
})

test('messages before the first handler wait for it and slow the peer', async () => {
  const { promise: start, resolve } = Promise.withResolvers<void>()
  let sizeBytes = 0
  await using trial = await open(async (socket) => {
    await start
    socket.onMessage(async (text) => {
      sizeBytes += text.length
      if (sizeBytes === 20_000_000) socket.close(4000, '')
    })
    await closed(socket, request)
  })
  const { ws, closed: end } = peer(trial)
  await once(ws, 'open')
  for (let n = 0; n < 200; n++) ws.send('x'.repeat(100_000))
  await new Promise((later) => setTimeout(later, 200))
  expect(ws.bufferedAmount).toBeGreaterThan(0)
  resolve()
  await end
  expect(sizeBytes).toBe(20_000_000)
})

test.for([
  ['a binary frame', 1003, (ws: WebSocket) => ws.send(Buffer.from('x'))],
  ['a message above 10 MiB', 1009, (ws: WebSocket) => ws.send('x'.repeat(10 * 1024 * 1024 + 1))],
  ['text that is not UTF-8', 1007, (ws: WebSocket) => ws.send(Buffer.from([0xff]), { binary: false })],
] as const)('%s closes with %i', async ([, code, send]) => {
  await using trial = await open(echo)
  const { ws, closed } = peer(trial)
  await once(ws, 'open')
  send(ws)
  expect((await closed)[0]).toBe(code)
})

test.for([
  ['serving', async () => Promise.reject(new Error('the reason'))],
  [
    'taking a message',
    async (socket: Socket) => {
      socket.onMessage(() => Promise.reject(new Error('the reason')))
      await closed(socket, request)
    },
  ],
] as const)('an error of %s closes with 1011 and is logged once', async ([, serve]) => {
  await using trial = await open(serve)
  const { ws, closed } = peer(trial)
  await once(ws, 'open')
  ws.send('x')
  const error_id = /^Internal error \(error_id (\w{16})\)$/.exec(String((await closed)[1]))?.[1]
  expect((await closed)[0]).toBe(1011)
  expect(trial.logEntries).toHaveLength(1)
  expect(trial.logEntries[0]?.members).toMatchObject({
    error_id,
    error: expect.stringContaining('the reason'),
  })
})

test('the signal aborts when the peer disconnects, and send then does nothing', async () => {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  await using trial = await open(async (socket) => {
    await closed(socket, request)
    await socket.send([createFrame(Buffer.from('late'))])
    socket.close(1000, '')
    resolve(socket.signal.aborted)
  })
  const { ws } = peer(trial)
  await once(ws, 'open')
  ws.terminate()
  expect(await promise).toBe(true)
})

test('a socket above the limit of a key is closed with 1013 until another one closes', async () => {
  await using trial = await open(closed, { maxSocketsPerKey: 2 })
  const peers = [peer(trial), peer(trial), peer(trial, '/sockets/c2/events')]
  for (const { ws } of peers) await once(ws, 'open')
  expect((await peer(trial).closed)[0]).toBe(1013)
  peers[0]?.ws.close()
  await peers[0]?.closed
  const again = peer(trial)
  await once(again.ws, 'open')
  await expectOpen(again)
})

test('a socket above the total limit is closed with 1013', async () => {
  await using trial = await open(closed, { maxSockets: 2 })
  const peers = [peer(trial), peer(trial, '/sockets/c2/events')]
  for (const { ws } of peers) await once(ws, 'open')
  expect((await peer(trial, '/sockets/c3/events').closed)[0]).toBe(1013)
})

test('a silent socket is pinged before a proxy with a limit of ten seconds cuts it', async () => {
  const clock = new FakeClock()
  await using trial = await open(closed, { clock })
  const { ws } = peer(trial)
  await once(ws, 'open')
  const pinged = once(ws, 'ping')
  await clock.advance(5_000)
  await pinged
})

test('pings detect a vanished peer', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  await using trial = await open(
    async (socket) => {
      await closed(socket, request)
      resolve()
    },
    { pingMs: 30, pongMs: 150 },
  )
  const alive = peer(trial)
  await once(alive.ws, 'open')
  const socket = await silentPeer(trial, path)
  await promise
  await once(socket.resume(), 'close')
  await expectOpen(alive)
})

test('a stalled reader that never reads again is cut off', async () => {
  const event = createFrame(Buffer.alloc(500_000, 0x61))
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const serve: Serve = async (socket) => {
    while (!socket.signal.aborted) await socket.send([event])
    resolve(true)
  }
  const trial = await open(serve, { stallMs: 50, closeMs: 50 })
  const slow = await silentPeer(trial, path)
  expect(await promise).toBe(true)
  await new Promise((later) => setTimeout(later, 150))
  await trial.listening.close()
  slow.destroy()
})

async function expectOpen({ ws }: Peer): Promise<void> {
  ws.ping()
  await once(ws, 'pong')
  expect(ws.readyState).toBe(ws.OPEN)
}
