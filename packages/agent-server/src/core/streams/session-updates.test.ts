import { expect, test } from 'vitest'
import { SessionUpdates } from './session-updates.ts'

const now = () => 1_700_000_000_000_000
const item = (attempt = 1) => ({ id: 'reply', attempt })

function delta(content: string, order: number, attempt = 1) {
  return { kind: 'delta', isStreamRequested: true, item: item(attempt), order, content } as const
}

test('a reply begins before its first piece, and waits for earlier events', () => {
  const updates = new SessionUpdates(now)
  updates.add({ ...delta('', 0), content: undefined, reasoning_content: 'Hm.' } as never, 3)
  updates.add(delta('A', 1), 3)
  updates.add(delta('B', 2), 3)
  expect(updates.take(2)).toEqual([])
  const common = { item_id: 'reply', attempt: 1 }
  expect(updates.take(3)).toEqual([
    { type: 'item_started', ...common, anchor_seq: 2 },
    { type: 'delta', ...common, order: 0, kind: 'reasoning', content: 'Hm.' },
    { type: 'delta', ...common, order: 1, kind: 'text', content: 'AB' },
  ])
  updates.add(delta('C', 3), 4)
  expect(updates.take(4)).toEqual([{ type: 'delta', ...common, order: 2, kind: 'text', content: 'C' }])
})

test('the event of a reply ends it: what waited is dropped', () => {
  const updates = new SessionUpdates(now)
  updates.add(delta('A', 0), 0)
  expect(updates.take(0)).toHaveLength(2)
  updates.add(delta('B', 1), 0)
  updates.retire({ id: 'reply' })
  updates.add({ kind: 'reply_aborted', item: item(), reason: 'cancelled' }, 1)
  expect(updates.take(9)).toEqual([])
})

test('a new attempt begins again; an abort names the attempt that was begun, once', () => {
  const updates = new SessionUpdates(now)
  updates.add(delta('A', 0), 0)
  updates.take(0)
  updates.add(delta('never sent', 1), 0)
  updates.add(delta('B', 0, 2), 0)
  expect(updates.take(0)).toMatchObject([
    { type: 'item_started', attempt: 2 },
    { type: 'delta', attempt: 2, order: 0, content: 'B' },
  ])
  for (const reason of ['LLMTimeoutError', 'cancelled'])
    updates.add({ kind: 'reply_aborted', item: item(3), reason }, 0)
  expect(updates.take(0)).toEqual([
    { type: 'item_aborted', item_id: 'reply', attempt: 2, reason: 'LLMTimeoutError' },
  ])
})

test('who comes in the middle of a reply gets nothing of it; nor who asked for no stream', () => {
  const updates = new SessionUpdates(now)
  updates.add(delta('B', 1), 0)
  updates.add({ ...delta('A', 0), isStreamRequested: false }, 0)
  updates.add({ kind: 'reply_aborted', item: item(), reason: 'cancelled' }, 0)
  expect(updates.take(0)).toEqual([])
})

test('a reader that takes nothing holds a bounded part of a reply', () => {
  const updates = new SessionUpdates(now)
  const piece = 'x'.repeat(100_000)
  for (let n = 0; n < 50; n++) updates.add(delta(piece, n), 0)
  const size = JSON.stringify(updates.take(0)).length
  expect(size).toBeGreaterThan(1_000_000)
  expect(size).toBeLessThan(1_300_000)
  updates.add(delta('late', 50), 0)
  expect(updates.take(0)).toEqual([])
})

test('the newest value of a state that is not stored is sent; a stored one is not', () => {
  const updates = new SessionUpdates(now)
  updates.add({ kind: 'member', key: 'title', value: 'One' }, 1)
  updates.add({ kind: 'member', key: 'title', value: 'Two' }, 1)
  updates.add({ kind: 'stats', value: {}, isStored: true }, 1)
  const event = { kind: 'ConversationStateUpdateEvent', key: 'title', value: 'Two' }
  expect(updates.take(1)).toMatchObject([{ type: 'transient', event }])
})
