import { expect, test } from 'vitest'
import {
  atLeast,
  atMost,
  Floor,
  findGoalsWithoutFloor,
  formatTable,
  information,
  median,
  percentile,
  withinBudget,
} from './result-table.ts'

const floor = (figure: number) => Floor.of('the same by bare Node', [figure])

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
  const measured = { floorName: 'bare', pairs }
  const expected = { ours: 80, floor: 100, floorName: 'bare', ratio: 0.8, holds: true }
  expect(atLeast('x', '/s', measured, 0.8)).toMatchObject(expected)
  expect(atLeast('x', '/s', measured, 0.9)).toMatchObject({ holds: false })
})

test('a figure passes when it does not exceed its floor that many times, and its unit says "at most"', () => {
  const row = atMost('x', 'ms', 30, floor(10), 3)
  expect(row).toMatchObject({ unit: 'ms, at most', ratio: 3, goal: 3, holds: true, floor: 10 })
  expect(atMost('x', 'ms', 31, floor(10), 3)).toMatchObject({ ratio: 3.1, holds: false })
})

test('a figure that was not measured never passes', () => {
  expect(atMost('x', 'ms', percentile([], 99), floor(10), 1).holds).toBe(false)
  expect(atMost('x', 'ms', 1, Floor.of('bare', []), 1).holds).toBe(false)
  expect(atLeast('x', '/s', { floorName: 'bare', pairs: [] }, 1).holds).toBe(false)
})

test('a goal needs a measured floor, or a budget in a unit that no machine changes', () => {
  const founded = [
    atMost('beside a floor', 'ms', 1, floor(2), 3),
    withinBudget('a bundle', 'bytes of a bundle', 1, 2),
    information('plain', 'ms', 1),
  ]
  expect(findGoalsWithoutFloor(founded)).toEqual([])
  const absolute = { ...information('absolute', 'ms, at most', 1), goal: 1, holds: true }
  const limited = { ...withinBudget('limited', 'rows', 1, 2), unit: 'ms, at most' }
  const unmeasured = atMost('unmeasured', 'ms', 1, Floor.of('bare', []), 3)
  const nameless = atMost('nameless', 'ms', 1, Floor.of('', [1]), 3)
  const names = ['absolute', 'limited', 'unmeasured', 'nameless']
  expect(findGoalsWithoutFloor([absolute, limited, unmeasured, nameless])).toEqual(names)
})

test('the table marks missed goals and gives information no verdict', () => {
  const lines = formatTable([
    atMost('slow', 'ms', 12, floor(10), 1),
    information('size', 'MB', 2.34567),
  ]).split('\n')
  expect(lines[1]).toMatch(/^slow +ms, at most +12 +10 +1\.20 +<= 1 +MISSED +the same by bare Node$/)
  expect(lines[2]).toMatch(/^size +MB +2\.35$/)
})
