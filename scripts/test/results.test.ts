import { expect, test } from 'vitest'
import { describeFailures, describeRun, mergeResults, type RunResults } from './results.ts'

const place = { file: 'packages/a/src/one.test.ts', project: 'plain' }
const file = { ...place, tests: 3, skipped: [], wallSeconds: 1, cpuSeconds: 1 }
const count = { passed: 1, failed: 0, skipped: 0, pending: 0 }
const run: RunResults = { count, failures: [], files: [file], skipReasons: [] }

test('no failure is no line', () => expect(describeFailures([])).toEqual([]))

test('failures are at most ten lines, and the last repeats exactly them', () => {
  expect(describeFailures([{ ...place, test: "a suite > it's (not) so" }])).toEqual([
    'Failed:',
    "  packages/a/src/one.test.ts: a suite > it's (not) so",
    "Repeat: npm test -- --project plain packages/a/src/one.test.ts -t 'a suite > it'\\''s \\(not\\) so'",
  ])
  const many = Array.from({ length: 30 }, (_, n) => ({ ...place, test: `test ${n}` }))
  const lines = describeFailures(many)
  expect(lines).toHaveLength(10)
  expect(lines.at(-2)).toBe('  and 23 more')
  expect(lines.at(-1)).toBe('Repeat: npm test -- --project plain packages/a/src/one.test.ts')
})

test('a file that could not be loaded is repeated whole', () => {
  expect(describeFailures([{ ...place, test: '' }]).at(-1)).toBe(
    'Repeat: npm test -- --project plain packages/a/src/one.test.ts',
  )
})

test('skipped tests are named with their reasons, and passes are summed', () => {
  const other: RunResults = {
    count: { ...count, skipped: 2 },
    failures: [],
    files: [{ ...file, skipped: ['a Pod', 'another'] }],
    skipReasons: ['no engine'],
  }
  const merged = mergeResults([run, other])
  expect(merged.count).toEqual({ passed: 2, failed: 0, skipped: 2, pending: 0 })
  expect(describeRun(merged)).toEqual([
    'Skipped:',
    '  no engine',
    '  2 of 3 in packages/a/src/one.test.ts: a Pod',
    '',
  ])
})
