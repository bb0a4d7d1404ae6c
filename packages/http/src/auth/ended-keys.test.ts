import { once } from 'node:events'
import type { Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { Handlers, SocketRoute } from '../core/handler.ts'
import { TestServer } from '../testing/test-server.ts'

const routes = {
  stream: { method: 'GET', path: '/stream', tag: 'test', summary: 'test', scope: 'read', responses: {} },
} as const satisfies Record<string, Route>

async function* beats(signal: AbortSignal): AsyncGenerator<string> {
  yield ': first\n\n'
  if (!signal.aborted) await once(signal, 'abort')
}

const handlers: Handlers<typeof routes> = {
  stream: ({ signal }) => ({ contentType: 'text/event-stream', chunks: beats(signal), isEndless: true }),
}

/** A server with the key `k`, and a session that can end. */
async function openServer() {
  const clock = new FakeClock()
  const received: string[] = []
  const serve: SocketRoute['serve'] = async (socket) => {
    socket.onMessage(async (text) => void received.push(text))
    if (!socket.signal.aborted) await once(socket.signal, 'abort')
  }
  let hasSession = true
  const server = await TestServer.start(routes, handlers, {
    keys: [new Secret('k')],
    isSessionKey: (key) => hasSession && key === 'session',
    findScopedKey: async () =>
      hasSession ? { id: 'x', scopes: ['read'] as const, conversation: null } : undefined,
    sockets: [{ path: '/socket', accepts: () => true, serve }],
    clock,
  })
  const connect = async (key: string) => {
    const ws = new WebSocket(`ws://127.0.0.1:${server.port}/socket?session_api_key=${key}`)
    const closed = once(ws, 'close').then(([code]) => code)
    await once(ws, 'open')
    return { ws, closed }
  }
  const stream = async (key: string) => {
    const response = await fetch(`${server.listening.url}/stream`, { headers: { 'x-session-api-key': key } })
    const reader = response.body?.getReader()
    await reader?.read()
    return reader
  }
  const signOut = () => {
    hasSession = false
  }
  return { server, clock, received, connect, stream, signOut }
}

test('a message on a socket counts no longer than the key that opened it', async () => {
  const { server, received, connect, signOut } = await openServer()
  await using _ = server
  const { ws, closed } = await connect('session')
  ws.send('before')
  await expect.poll(() => received).toEqual(['before'])
  signOut()
  ws.send('after')
  expect(await closed).toBe(4001)
  expect(received).toEqual(['before'])
})

test('a silent socket and a stream end seconds after their key; those of a valid key continue', async () => {
  const { server, clock, connect, stream, signOut } = await openServer()
  await using _ = server
  const [ended, kept] = [await connect('session'), await connect('k')]
  const [endedStream, keptStream] = [await stream('session'), await stream('k')]
  const scopedStream = await stream('sk-slipway-x')
  signOut()
  await clock.advance(5_000)
  expect(await ended.closed).toBe(4001)
  expect(await endedStream?.read()).toMatchObject({ done: true })
  expect(await scopedStream?.read()).toMatchObject({ done: true })
  expect(kept.ws.readyState).toBe(WebSocket.OPEN)
  await keptStream?.cancel()
  kept.ws.terminate()
})
