import fc from 'fast-check'
import { expect, test } from 'vitest'
import { CounterVec, Histogram, HistogramVec } from './metrics.ts'

test('a tally counts each value once, at the first bound that is not below it', () => {
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.double({ noNaN: true, min: 0, max: 100 }), { minLength: 1, maxLength: 6 }),
      fc.array(fc.double({ noNaN: true, min: 0, max: 200 })),
      (bounds, values) => {
        const sorted = bounds.toSorted((a, b) => a - b)
        const tally = new Histogram(sorted)
        for (const value of values) tally.observe(value)
        expect(tally.count).toBe(values.length)
        let total = 0
        for (const [at, bound] of sorted.entries()) {
          total += tally.bucketCounts[at] ?? 0
          expect(total).toBe(values.filter((value) => value <= bound).length)
        }
      },
    ),
  )
})

test('the same labels are one sample, whatever the order of their members', () => {
  const counts = new CounterVec('a', 'b')
  counts.increment({ a: 'x', b: 'y' })
  counts.increment({ b: 'y', a: 'x' }, 2)
  counts.increment({ a: 'y', b: 'x' })
  expect(counts.samples).toEqual([
    { labels: { a: 'x', b: 'y' }, value: 3 },
    { labels: { a: 'y', b: 'x' }, value: 1 },
  ])
  const tallies = new HistogramVec([1], 'a')
  tallies.observe({ a: 'x' }, 1)
  tallies.observe({ a: 'x' }, 2)
  expect(tallies.samples).toMatchObject([{ labels: { a: 'x' }, value: { bucketCounts: [1, 1], sum: 3 } }])
})
