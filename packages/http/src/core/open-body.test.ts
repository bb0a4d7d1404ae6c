import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Route } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { TestServer } from '../testing/test-server.ts'
import type { Handlers } from './handler.ts'

const post = { method: 'POST', tag: 'test', summary: 'test', responses: {}, body: z.unknown() } as const
const routes = {
  signIn: { ...post, path: '/open', open: true },
  init: { ...post, path: '/declared', open: true, maxBodyBytes: 20_000 },
  act: { ...post, path: '/closed' },
} as const satisfies Record<string, Route>
const reply = () => ({ json: null })
const handlers: Handlers<typeof routes> = { signIn: reply, init: reply, act: reply }
const keys = [new Secret('a-key')]

test.for([
  ['/open', 4_096, 4_097],
  ['/declared', 20_000, 20_001],
  ['/closed', 100_000, undefined],
] as const)('the body of %s may have %i bytes', async ([path, most, tooMany]) => {
  await using trial = await TestServer.start(routes, handlers, { keys })
  const statusOf = async (size: number, framing: object) => {
    const headers = { 'content-type': 'application/json', 'x-session-api-key': 'a-key', ...framing }
    const body = `"${'x'.repeat(size - 2)}"`
    return (await trial.call(path, { method: 'POST', headers, body })).status
  }
  for (const framing of [{}, { 'transfer-encoding': 'chunked' }]) {
    expect(await statusOf(most, framing)).toBe(200)
    if (tooMany !== undefined) expect(await statusOf(tooMany, framing)).toBe(413)
  }
})

test('of the bodies that wait without a key the oldest gives way', async () => {
  await using trial = await TestServer.start(routes, handlers, { keys, lingerMs: 50 })
  const start = async () => {
    const socket = connect(trial.port, '127.0.0.1')
    socket.on('error', () => {})
    await once(socket, 'connect')
    socket.write('POST /open HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n1')
    return socket
  }
  const sockets: Socket[] = [await start()]
  const [first] = sockets
  const answered = once(first as Socket, 'data')
  while (sockets.length < 257) sockets.push(await start())
  expect(String(await answered)).toMatch(/^HTTP\/1.1 408 /)
  expect((await trial.json('/open', {})).status).toBe(200)
  for (const socket of sockets) socket.destroy()
})

test('an open route with a body that is not limited does not start', async () => {
  const { body: _, ...rest } = post
  const upload = { upload: { ...rest, path: '/upload', open: true, upload: true } } as const
  await expect(TestServer.start(upload, { upload: reply })).rejects.toThrow('needs a key')
})
