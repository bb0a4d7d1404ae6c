import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type TransientUpdate, TransientUpdates } from './transient-updates.ts'

const retry = { code: 'LLMError' as const, detail: 'no', status: 500, waitMs: 8_000, attempt: 1, attempts: 5 }

beforeEach(() => vi.useFakeTimers())
afterEach(() => vi.useRealTimers())

/** What a reader that comes now gets at once. */
function join(updates: TransientUpdates): [TransientUpdate, number][] {
  const received: [TransientUpdate, number][] = []
  updates.subscribe((update, position) => received.push([update, position]))()
  return received
}

test('a reader that comes while a failed model is waited for gets the rest of the wait', () => {
  const updates = new TransientUpdates()
  expect(join(updates)).toEqual([])
  updates.publish({ kind: 'retry', ...retry }, 7)
  expect(join(updates)).toEqual([[{ kind: 'retry', ...retry }, 7]])
  vi.advanceTimersByTime(3_000)
  updates.publish({ kind: 'member', key: 'title', value: 'x' }, 7)
  expect(join(updates)).toEqual([[{ kind: 'retry', ...retry, waitMs: 5_000 }, 7]])
  vi.advanceTimersByTime(5_000)
  expect(join(updates)).toEqual([])
})

test.each([{ kind: 'idle' }, { kind: 'delta', content: 'Up again' }] as const)(
  'after $kind nothing is waited for',
  (update) => {
    const updates = new TransientUpdates()
    updates.publish({ kind: 'retry', ...retry }, 7)
    updates.publish(update, 8)
    expect(join(updates)).toEqual([])
  },
)
