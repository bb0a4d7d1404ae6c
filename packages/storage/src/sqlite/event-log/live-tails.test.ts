import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import type { StoredEvent } from '../../event-log/event-log.ts'
import { conversation, positions } from '../../testing/fixtures.ts'
import { temporary } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'
import { batchBytes, Live } from './live-tails.ts'

test('readers at one position get the same batch', () => {
  const live = new Live()
  live.push(events(5, 3))
  expect(positions([...(live.after(5) ?? [])])).toEqual([6, 7])
  expect(live.after(5)).toBe(live.after(5))
  expect(live.after(3)).toBeUndefined()
  expect(live.after(7)).toBeUndefined()
  live.push(events(8, 1))
  expect(positions([...(live.after(5) ?? [])])).toEqual([6, 7, 8])
})

test('what is at hand is bounded in events and bytes, has no gap, and a batch ends at its size', () => {
  const live = new Live()
  for (let i = 0; i < 100; i++) live.push(events(1 + i * 10, 10))
  expect(live.after(487)).toBeUndefined()
  expect(live.after(488)).toHaveLength(512)
  live.push(events(2_000, 2))
  expect(live.after(998)).toBeUndefined()
  expect(positions([...(live.after(1_999) ?? [])])).toEqual([2_000, 2_001])
  live.push(events(2_002, 20, 100_000))
  expect(live.after(2_005)).toBeUndefined()
  const sizes = (live.after(2_015) ?? []).map((event) => event.bytes.length)
  expect(sizes).toHaveLength(Math.ceil(batchBytes / 100_000))
})

test('caught-up tails share the event objects, and leave no listener behind', async () => {
  using directory = temporary()
  await using storage = await openStorage({ directory: directory.path })
  await storage.conversations.create({ id: conversation })
  const stop = new AbortController()
  const first = Array.from({ length: 5 }, async () => {
    for await (const [event] of storage.log.tail(conversation, 0, stop.signal)) return event
    return undefined
  })
  await new Promise((resolve) => setImmediate(resolve))
  const [stored] = await storage.log.append(conversation, [{ kind: 'PauseEvent', source: 'user' }])
  for (const event of await Promise.all(first)) expect(event).toBe(stored)
  expect(getEventListeners(stop.signal, 'abort')).toEqual([])
})

function events(from: number, count: number, sizeBytes = 10): StoredEvent[] {
  return Array.from({ length: count }, (_, i) => ({
    position: from + i,
    id: `e${from + i}`,
    instant: from + i,
    bytes: Buffer.alloc(sizeBytes),
  }))
}
