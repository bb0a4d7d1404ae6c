import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decide, findDeletion, needsIdleTime } from './lifetimes.ts'

const second = 1_000_000
const row = {
  id: 'a',
  owner: 'ann' as string | null,
  org: null,
  spec: 's',
  backend: 'b',
  wanted: 'running' as 'running' | 'paused' | 'gone',
  status: 'RUNNING',
  detail: null,
  key_hash: null,
  sealed: Buffer.alloc(0),
  epoch: 'e' as string | null,
  addresses: '{}',
  created_at: 0,
  changed_at: 0,
  used_at: 0,
  caught_up_at: null as number | null,
  deletes_at: null as number | null,
}
const paused = { ...row, wanted: 'paused' as const, status: 'PAUSED', caught_up_at: 0 }
const announced = { ...paused, deletes_at: 1000 * second }
const lifetimes = { idleSeconds: 10, maxSessionSeconds: 100, deleteAfterSeconds: 1000 }
const off = { idleSeconds: 0, maxSessionSeconds: 0, deleteAfterSeconds: 0 }

test.each([
  ['a working one', row, 99, undefined, 'none'],
  ['an idle one', row, 10, 10, 'pause'],
  ['an idle one that is not for long', row, 10, 9, 'none'],
  [
    'one whose agent server counts the pause before its resume',
    { ...row, changed_at: 5 * second },
    14,
    99,
    'none',
  ],
  ['one that was used in between', { ...row, used_at: 5 * second }, 14, 99, 'none'],
  ['a working one whose session is over', { ...row, used_at: 99 * second }, 100, 0, 'pause'],
  ['one that is on its way', { ...row, status: 'STARTING' }, 5000, 99, 'none'],
  ['one that is to be paused already', { ...row, wanted: 'paused' as const }, 5000, 99, 'none'],
  ['one of the warm pool', { ...row, owner: null }, 5000, 99, 'none'],
  ['a paused one', paused, 899, undefined, 'none'],
  ['one that was paused for long', paused, 900, undefined, 'announce'],
  ['one that was paused for longer than a lowered limit', paused, 9000, undefined, 'announce'],
  ['an announced one', announced, 999, undefined, 'none'],
  ['an announced one that is due', announced, 1000, undefined, 'delete'],
  [
    'one that was announced before a later use',
    { ...announced, used_at: 500 * second, caught_up_at: 501 * second },
    1400,
    undefined,
    'announce',
  ],
  ['one that may have unsent events', { ...announced, caught_up_at: null }, 5000, undefined, 'none'],
  ['one that was used after its events were noted', { ...announced, used_at: 1 }, 5000, undefined, 'none'],
  [
    'one that was paused before its first start',
    { ...announced, epoch: null, caught_up_at: null },
    1000,
    undefined,
    'delete',
  ],
  [
    'one that was paused and is to run',
    { ...announced, wanted: 'running' as const },
    5000,
    undefined,
    'none',
  ],
  ['one that is removed', { ...announced, wanted: 'gone' as const }, 5000, undefined, 'none'],
  ['a missing one', { ...announced, status: 'MISSING' }, 5000, undefined, 'none'],
  ['a broken one', { ...announced, status: 'ERROR' }, 1019, undefined, 'announce'],
  [
    'a broken one after two idle periods',
    { ...announced, status: 'ERROR', deletes_at: 1020 * second },
    1020,
    undefined,
    'delete',
  ],
] as const)('what is due for %s', (_, one, seconds, idleSeconds, action) => {
  const facts = { lastUse: one.used_at, idleSeconds }
  expect(decide(one, lifetimes, seconds * second, facts)).toBe(action)
  expect(decide(one, off, seconds * second, facts)).toBe('none')
})

test('an announcement leaves a tenth of the time, whenever it is made', () => {
  expect(findDeletion(paused, lifetimes, 900 * second, 0)).toEqual({ at: 1000 * second, isAnnounced: false })
  expect(findDeletion(paused, lifetimes, 9000 * second, 0)).toEqual({ at: 9100 * second, isAnnounced: false })
})

test('an idle time is asked for only when it decides', () => {
  expect(needsIdleTime(row, lifetimes, 9 * second, 0)).toBe(false)
  expect(needsIdleTime(row, lifetimes, 10 * second, 0)).toBe(true)
  expect(needsIdleTime(row, lifetimes, 14 * second, 5 * second)).toBe(false)
  expect(needsIdleTime(paused, lifetimes, 5000 * second, 0)).toBe(false)
})

test('whatever the row, a deletion is of one at rest, long after its use, with all events and announced', () => {
  const at = fc.integer({ min: 0, max: 3000 }).map((seconds) => seconds * second)
  const anyRow = fc.record({
    owner: fc.constantFrom('ann', null),
    wanted: fc.constantFrom('running' as const, 'paused' as const, 'gone' as const),
    status: fc.constantFrom('STARTING', 'RUNNING', 'PAUSED', 'ERROR', 'MISSING'),
    epoch: fc.constantFrom('e', null),
    changed_at: at,
    used_at: at,
    caught_up_at: fc.option(at),
    deletes_at: fc.option(at),
  })
  const seen = new Set<string>()
  const check = (members: Partial<typeof row>, now: number, idle: number | undefined) => {
    const one = { ...row, ...members }
    const action = decide(one, lifetimes, now, { lastUse: one.used_at, idleSeconds: idle })
    seen.add(action)
    if (action === 'none') return
    expect(one.owner).not.toBeNull()
    expect(one.wanted).not.toBe('gone')
    if (action === 'pause') {
      expect([one.wanted, one.status]).toEqual(['running', 'RUNNING'])
      return
    }
    expect(['PAUSED', 'ERROR']).toContain(one.status)
    if (one.epoch !== null || one.status === 'ERROR')
      expect(one.caught_up_at ?? -1).toBeGreaterThanOrEqual(one.used_at)
    if (action === 'announce') return
    expect(now - Math.max(one.changed_at, one.used_at)).toBeGreaterThanOrEqual(1000 * second)
    expect(one.deletes_at ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(now)
  }
  fc.assert(fc.property(anyRow, at, fc.option(fc.nat(200), { nil: undefined }), check), { numRuns: 5000 })
  expect([...seen].toSorted()).toEqual(['announce', 'delete', 'none', 'pause'])
})
