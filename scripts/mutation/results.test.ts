import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { describeFailures } from '../test/results.ts'
import {
  describeFaults,
  firstFailure,
  lastCount,
  type MutationRun,
  readEquivalents,
  readRuns,
  writeRun,
} from './results.ts'

const place = {
  file: 'packages/a/src/x.ts',
  line: 3,
  kind: 'check',
  before: 'if (a) return',
  after: '{}',
} as const
const found = { ...place, draw: 1, passed: [], foundBy: 'related', test: 'a.test.ts: b', seconds: 2 }
const missed = { ...place, draw: 4, passed: ['related', 'npm test'], seconds: 9 }
const run: MutationRun = { seed: 'one', at: '2026-01-01', lines: 9, faults: [found], refused: [] }

async function makeFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'mutation-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  return folder
}

test('a run replaces that of its seed, and leaves others', async () => {
  const path = join(await makeFolder(), 'mutation.json')
  await writeRun(path, run)
  await writeRun(path, { ...run, seed: 'two' })
  const longer = { ...run, faults: [found, missed] }
  await writeRun(path, longer)
  expect(readRuns(path)).toEqual([longer, { ...run, seed: 'two' }])
})

test('missed faults are shown with their lines, and equivalent ones are counted', () => {
  expect(describeFaults([found, missed], [])).toEqual([
    'Not found: packages/a/src/x.ts:3 check (draw 4; passed: related, npm test)',
    '  - if (a) return',
    '  + {}',
    '1 of 2 faults found, 1 missed, 0 equivalent',
  ])
  const equivalents = [{ seed: 'one', draw: 4, reason: 'a later check repeats it' }]
  expect(describeFaults([found, missed], equivalents)).toEqual([
    '1 of 2 faults found, 0 missed, 1 equivalent',
  ])
})

test('at most five faults of a seed are equivalent, each with a reason', async () => {
  const path = join(await makeFolder(), 'equivalents.json')
  const write = (faults: unknown[]) => writeFile(path, JSON.stringify(faults))
  const faults = Array.from({ length: 6 }, (_, draw) => ({ seed: 'one', draw, reason: 'same' }))
  await write(faults)
  expect(() => readEquivalents(path, 'one')).toThrow('at most 5')
  expect(readEquivalents(path, 'two')).toEqual([])
  await write([{ seed: 'one', draw: 1, reason: ' ' }])
  expect(() => readEquivalents(path, 'one')).toThrow('has no reason')
})

test('the last counts are read from what a run of tests prints', () => {
  expect(lastCount('1 passed, 0 failed\n\n2 passed, 0 failed, 1 skipped\n')).toBe(
    '2 passed, 0 failed, 1 skipped',
  )
  expect(lastCount('nothing')).toBeUndefined()
})

test('the first failure is read from what a run of tests prints', () => {
  const failure = { file: 'packages/a/src/x.test.ts', project: 'plain', test: 'a > b' }
  const lines = describeFailures([failure, { ...failure, test: 'c' }])
  expect(firstFailure(['much', ...lines, '1 passed, 2 failed'].join('\n'))).toBe(
    'packages/a/src/x.test.ts: a > b',
  )
  expect(firstFailure('3 passed, 0 failed')).toBeUndefined()
})
