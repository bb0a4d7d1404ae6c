import { expect, test } from 'vitest'
import { atLeast, atMost, formatTable, information, median, percentile } from './result-table.ts'

test('a percentile is the nearest rank of the values in any order', () => {
  const values = Array.from({ length: 200 }, (_, i) => 200 - i)
  expect([percentile(values, 99), percentile(values, 100), median(values), percentile([7], 1)]).toEqual([
    198, 200, 100, 7,
  ])
})

test('a throughput passes when the median ratio of its pairs reaches the goal', () => {
  const pairs = [
    { ours: 80, floor: 100 },
    { ours: 10, floor: 100 },
    { ours: 450, floor: 500 },
  ]
  expect(atLeast('x', '/s', pairs, 0.8)).toMatchObject({ ours: 80, floor: 100, ratio: 0.8, holds: true })
  expect(atLeast('x', '/s', pairs, 0.9)).toMatchObject({ holds: false })
})

test('a limit passes when it is not exceeded, and its unit says "at most"', () => {
  expect(atMost('x', 'ms', 10, 10)).toMatchObject({ unit: 'ms, at most', ratio: 1, goal: 1, holds: true })
  expect(atMost('x', 'ms', 31, 10, 3)).toMatchObject({ ratio: 3.1, holds: false })
})

test('a figure that was not measured never passes', () => {
  expect(atMost('x', 'ms', percentile([], 99), 10).holds).toBe(false)
  expect(atLeast('x', '/s', [], 1).holds).toBe(false)
})

test('the table marks missed goals and gives information no verdict', () => {
  const lines = formatTable([atMost('slow', 'ms', 12, 10), information('size', 'MB', 2.34567)]).split('\n')
  expect(lines[1]).toMatch(/^slow +ms, at most +12 +10 +1\.20 +<= 1 +MISSED$/)
  expect(lines[2]).toMatch(/^size +MB +2\.35$/)
})
