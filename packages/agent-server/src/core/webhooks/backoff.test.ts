import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Backoff } from './backoff.ts'

const times = { firstMs: 1_000, maxMs: 60_000, random: () => 1 }
const failure = { isUnreachable: false, isGone: false, retryAfterMs: undefined }
const noConversations: ReadonlySet<string> = new Set()

test('a conversation that failed rests, each time twice as long up to a minute, and no one else does', () => {
  const rests = new Backoff(times)
  let nowMs = 0
  for (const waitMs of [1, 2, 4, 8, 16, 32, 60, 60].map((s) => s * 1000)) {
    rests.recordFailure('a', failure, nowMs)
    expect(rests.listQueries(noConversations, 4, nowMs)).toEqual([{ limit: 4, except: new Set(['a']) }])
    expect(rests.nextChangeMs(nowMs)).toBe(nowMs + waitMs)
    nowMs += waitMs
    expect(rests.listQueries(noConversations, 4, nowMs)).toEqual([{ limit: 4, except: new Set() }])
  }
  expect(rests.recordSuccess('a')).toBe(true)
  expect(rests.recordSuccess('a')).toBe(false)
})

test('one that does not know us is left alone for longer, and one that asks to wait for as long as it asks', () => {
  const rests = new Backoff(times)
  rests.recordFailure('a', { ...failure, isGone: true }, 0)
  rests.recordFailure('b', { ...failure, retryAfterMs: 30_000 }, 0)
  expect(rests.listQueries(noConversations, 4, 7_999)).toEqual([{ limit: 4, except: new Set(['a', 'b']) }])
  expect(rests.listQueries(noConversations, 4, 8_000)).toEqual([{ limit: 4, except: new Set(['b']) }])
  expect(rests.listQueries(noConversations, 4, 30_000)).toEqual([{ limit: 4, except: new Set() }])
})

test('when all fail one after the other, one at a time asks, those first that have not failed', () => {
  const rests = new Backoff(times)
  for (const one of ['a', 'b', 'c']) rests.recordFailure(one, failure, 0)
  expect(rests.listQueries(noConversations, 4, 0)).toEqual([])
  expect(rests.listQueries(noConversations, 4, 1_000)[0]).toEqual({
    limit: 1,
    except: new Set(['a', 'b', 'c']),
  })
  expect(rests.listQueries(new Set(['d']), 4, 1_000)).toEqual([])
  rests.recordSuccess('d')
  expect(rests.listQueries(noConversations, 4, 1_000)).toEqual([{ limit: 4, except: new Set() }])
})

test('who rested because no one answered rests no longer when somebody else was answered', () => {
  const rests = new Backoff(times)
  rests.recordFailure('silent', { ...failure, isUnreachable: true }, 0)
  rests.recordFailure('refused', failure, 0)
  rests.recordSuccess('other')
  expect(rests.listQueries(noConversations, 4, 0)).toEqual([{ limit: 4, except: new Set(['refused']) }])
})

test('whatever fails and succeeds: there is a choice now, or a moment within a minute when there is one', () => {
  const step = fc.record({
    one: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
    isTaken: fc.boolean(),
    isUnreachable: fc.boolean(),
    isGone: fc.boolean(),
    retryAfterMs: fc.option(fc.integer({ min: 0, max: 10 ** 9 }), { nil: undefined }),
    laterMs: fc.integer({ min: 0, max: 90_000 }),
    random: fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      let [nowMs, random] = [0, 0]
      const rests = new Backoff({ ...times, random: () => random })
      for (const { one, isTaken, laterMs, ...of } of steps) {
        nowMs += laterMs
        random = of.random
        if (isTaken) rests.recordSuccess(one)
        else rests.recordFailure(one, of, nowMs)
        // Nobody is kept for ever: by stepping to the moments that are named, everybody is free within a
        // minute.
        let [atMs, steps] = [nowMs, 0]
        const isFree = (who: string) =>
          rests.listQueries(noConversations, 4, atMs).some(({ except }) => !except.has(who))
        while (!['a', 'b', 'c', 'd', 'e', 'new'].every(isFree)) {
          const next = rests.nextChangeMs(atMs)
          expect(next).toBeGreaterThan(atMs)
          expect(next).toBeLessThanOrEqual(nowMs + 60_000)
          atMs = next
          steps += 1
        }
        expect(steps).toBeLessThan(20)
      }
    }),
  )
})

test('on the way out no one is asked who has failed, and no one at all when everything fails', () => {
  const rests = new Backoff(times)
  expect(rests.listFinalQueries(new Set(['x']), 4)).toEqual([{ limit: 3, except: new Set(['x']) }])
  rests.recordFailure('a', failure, 0)
  expect(rests.listFinalQueries(noConversations, 4)).toEqual([{ limit: 4, except: new Set(['a']) }])
  for (const one of ['b', 'c']) rests.recordFailure(one, failure, 0)
  expect(rests.listFinalQueries(noConversations, 4)).toEqual([])
})
