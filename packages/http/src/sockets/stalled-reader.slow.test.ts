import { once } from 'node:events'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import type { SocketRoute } from '../core/handler.ts'
import { silentPeer } from '../testing/silent-peer.ts'
import { TestServer } from '../testing/test-server.ts'
import { createFrame } from './frame.ts'

test('a stalled reader uses little memory, does not slow others, and is closed with 1013', {
  timeout: 120_000,
}, async () => {
  const event = createFrame(Buffer.alloc(50_000, 0x61))
  const sent = new Map<string, number>()
  const ended = new Set<string>()
  const serve: SocketRoute['serve'] = async (socket, { params }) => {
    const id = params.id ?? ''
    for (let n = 0; n < 2_000 && !socket.signal.aborted; n++) {
      await socket.send([event])
      sent.set(id, n + 1)
    }
    ended.add(id)
  }
  const sockets = [{ path: '/sockets/{id}/events', accepts: () => true, serve }]
  const clock = new FakeClock()
  await using trial = await TestServer.start({}, {}, { sockets, clock, closeMs: 20_000 })
  const slow = await silentPeer(trial, '/sockets/slow/events')
  const quick = new WebSocket(`ws://127.0.0.1:${trial.port}/sockets/quick/events`)
  let received = 0
  quick.on('message', () => received++)
  const [code, reason] = (await once(quick, 'close')) as [number, Buffer]
  expect([code, String(reason), received]).toEqual([1000, '', 2_000])
  expect(sent.get('slow')).toBeLessThan(1_000)
  await clock.advance(29_000)
  expect(ended.has('slow')).toBe(false)
  await clock.advance(1_000)
  await expect.poll(() => ended.has('slow'), { timeout: 60_000 }).toBe(true)
  let last = Buffer.alloc(0)
  slow.on('data', (chunk) => {
    last = Buffer.concat([last, chunk]).subarray(-64)
  })
  await once(slow, 'close')
  expect(last.toString('latin1')).toContain('\x03\xf5too slow, reconnect and resume')
})
