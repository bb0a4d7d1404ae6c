import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import type { StoredEvent } from '../../event-log/event-log.ts'
import { batchBytes, LiveTail } from '../../event-log/live-tails.ts'
import { conversation, positions } from '../../testing/fixtures.ts'
import { temporaryDirectory } from '../../testing/temporary-directory.ts'
import { openStorage } from '../storage.ts'

test('readers at one position share a batch', () => {
  const live = new LiveTail()
  live.push(events(5, 3))
  expect(positions([...(live.batchAfter(5) ?? [])])).toEqual([6, 7])
  expect(live.batchAfter(5)).toBe(live.batchAfter(5))
  expect(live.batchAfter(3)).toBeUndefined()
  expect(live.batchAfter(7)).toBeUndefined()
  live.push(events(8, 1))
  expect(positions([...(live.batchAfter(5) ?? [])])).toEqual([6, 7, 8])
})

test('recent events are bounded in number and bytes and have no gap, and batches are bounded', () => {
  const live = new LiveTail()
  for (let i = 0; i < 100; i++) live.push(events(1 + i * 10, 10))
  expect(live.batchAfter(487)).toBeUndefined()
  expect(live.batchAfter(488)).toHaveLength(512)
  live.push(events(2_000, 2))
  expect(live.batchAfter(998)).toBeUndefined()
  expect(positions([...(live.batchAfter(1_999) ?? [])])).toEqual([2_000, 2_001])
  live.push(events(2_002, 20, 100_000))
  expect(live.batchAfter(2_005)).toBeUndefined()
  const sizes = (live.batchAfter(2_015) ?? []).map((event) => event.bytes.length)
  expect(sizes).toHaveLength(Math.ceil(batchBytes / 100_000))
})

test('tails at the head share event objects, and leave no listener behind', async () => {
  using directory = temporaryDirectory()
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
