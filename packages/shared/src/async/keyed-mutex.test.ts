import { setImmediate as turn } from 'node:timers/promises'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { KeyedMutex } from './keyed-mutex.ts'

test('calls with one key never overlap and keep their order; a failure stops nothing; keys are forgotten', async () => {
  const call = fc.record({ key: fc.constantFrom('a', 'b'), turns: fc.nat(3), fails: fc.boolean() })
  await fc.assert(
    fc.asyncProperty(fc.array(call, { maxLength: 20 }), async (calls) => {
      const mutex = new KeyedMutex()
      const running = new Set<string>()
      const order = new Map<string, number[]>([
        ['a', []],
        ['b', []],
      ])
      const results = calls.map(({ key, turns, fails }, index) =>
        mutex.runExclusive(key, async () => {
          expect(running.has(key)).toBe(false)
          running.add(key)
          order.get(key)?.push(index)
          for (let n = 0; n < turns; n++) await turn()
          running.delete(key)
          if (fails) throw new Error('failed')
          return index
        }),
      )
      for (const [index, result] of (await Promise.allSettled(results)).entries()) {
        const isFailed = calls[index]?.fails === true
        expect(result.status).toBe(isFailed ? 'rejected' : 'fulfilled')
      }
      for (const indices of order.values()) expect(indices).toEqual(indices.toSorted((a, b) => a - b))
      expect(mutex.size).toBe(0)
    }),
    { numRuns: 50 },
  )
})
