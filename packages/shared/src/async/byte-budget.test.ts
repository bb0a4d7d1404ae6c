import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { systemClock } from '../time/index.ts'
import { FakeClock } from '../time/testing/index.ts'
import { ByteBudget, ByteBudgetError } from './byte-budget.ts'

const patient = { maxWaitMs: 60_000, clock: systemClock }

test('a lease waits for room and is served in order', async () => {
  const budget = new ByteBudget({ totalBytes: 10, bytesPerKey: 10, ...patient })
  const [first, second, third] = ['a', 'b', 'c'].map((key) => budget.lease(key))
  if (first === undefined || second === undefined || third === undefined) throw new Error('three leases')
  await first.add(8)
  const order: string[] = []
  const waiting = [
    second.add(5).then(() => order.push('second')),
    third.add(1).then(() => order.push('third')),
  ]
  await turn()
  expect([order, budget.waiting, budget.usedBytes]).toEqual([[], 2, 8])
  first[Symbol.dispose]()
  await Promise.all(waiting)
  expect([order, budget.waiting, budget.usedBytes]).toEqual([['second', 'third'], 0, 6])
})

test('a key at its own limit does not hold up others', async () => {
  const budget = new ByteBudget({ totalBytes: 10, bytesPerKey: 6, ...patient })
  using greedy = budget.lease('a')
  await greedy.add(6)
  using second = budget.lease('a')
  const held = second.add(1)
  using other = budget.lease('b')
  await other.add(4)
  expect(budget.waiting).toBe(1)
  greedy[Symbol.dispose]()
  await held
  expect(budget.usedBytes).toBe(5)
})

test('what never fits, or does not fit in time, is refused and takes nothing', async () => {
  const clock = new FakeClock()
  const budget = new ByteBudget({ totalBytes: 10, bytesPerKey: 8, maxWaitMs: 10_000, clock })
  const first = budget.lease('a')
  await expect(first.add(9)).rejects.toBeInstanceOf(ByteBudgetError)
  await first.add(8)
  using other = budget.lease('b')
  const refused = expect(other.add(3)).rejects.toBeInstanceOf(ByteBudgetError)
  await clock.advance(10_000)
  await refused
  expect([budget.waiting, budget.usedBytes]).toEqual([0, 8])
  first[Symbol.dispose]()
  first[Symbol.dispose]()
  await other.add(8)
  expect(budget.usedBytes).toBe(8)
})

test('the limits hold after every step, and everything is granted once all others end', async () => {
  const step = fc.record({
    holder: fc.nat(5),
    bytes: fc.integer({ min: 1, max: 12 }),
    isEnd: fc.boolean(),
  })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 60 }), async (steps) => {
      const budget = new ByteBudget({ totalBytes: 20, bytesPerKey: 12, ...patient })
      const key = (holder: number) => `user ${holder % 3}`
      const held = new Map<number, number>()
      const leases = Array.from({ length: 6 }, (_, holder) => budget.lease(key(holder)))
      const pending: Promise<void>[] = []
      const check = () => {
        const total = [...held.values()].reduce((sum, bytes) => sum + bytes, 0)
        expect(budget.usedBytes).toBe(total)
        expect(total).toBeLessThanOrEqual(20)
        for (const user of [0, 1, 2]) {
          const ofUser = [...held].filter(([holder]) => holder % 3 === user)
          expect(ofUser.reduce((sum, [, bytes]) => sum + bytes, 0)).toBeLessThanOrEqual(12)
        }
      }
      const end = (holder: number) => {
        leases[holder]?.[Symbol.dispose]()
        held.delete(holder)
      }
      for (const { holder, bytes, isEnd } of steps) {
        if (isEnd) end(holder)
        else {
          const taken = leases[holder]?.add(bytes).then(() => {
            held.set(holder, (held.get(holder) ?? 0) + bytes)
          })
          if (taken !== undefined) pending.push(taken)
        }
        await turn()
        check()
      }
      while (budget.waiting > 0) {
        for (const holder of leases.keys()) end(holder)
        await turn()
        check()
      }
      await Promise.all(pending)
    }),
    { numRuns: 200 },
  )
})
