import { expect, test } from 'vitest'
import { findLongWaits, readTests } from './check-waits.ts'

const imported = `import { setTimeout as sleep } from 'node:timers/promises'\n`

test.each([
  ['a sleep', `${imported}await sleep(2_000)`],
  ['a product', `${imported}await sleep(2 * 1000, undefined)`],
  ['a promise of a timer', 'await new Promise((resolve) => setTimeout(resolve, 501))'],
  ['a later call', 'setTimeout(() => stop.abort(), 700)'],
  ['a later call with arguments', 'const late = setTimeout((x) => run(f(x), 1), 700)'],
])('%s is found', (_, text) => {
  const found = findLongWaits([{ file: 'packages/a.test.ts', text }], {})
  expect(found).toEqual([expect.stringMatching(/^packages\/a\.test\.ts:\d: waits \d+ ms/)])
})

test.each([
  ['a short one', 'packages/a.test.ts', `${imported}await sleep(500)`],
  [
    'a limit in a race',
    'packages/a.test.ts',
    `${imported}const late = sleep(10_000, 'open', { ref: false })`,
  ],
  ['one of a fake clock', 'packages/a.test.ts', `${imported}await clock.advance(60_000)`],
  ['one of a program', 'packages/a.process.test.ts', `${imported}await sleep(2_000)`],
  ['a polling limit', 'packages/a.test.ts', 'await expect.poll(f, { timeout: 20_000 }).toBe(1)'],
])('%s is none', (_, file, text) => {
  expect(findLongWaits([{ file, text }], {})).toEqual([])
})

test('an exception that is needed no more is refused', () => {
  const file = 'packages/a.test.ts'
  const text = `${imported}await sleep(2_000)`
  expect(findLongWaits([{ file, text }], { [file]: 'it has a reason' })).toEqual([])
  expect(findLongWaits([{ file, text: '' }], { [file]: 'it has a reason' })).toHaveLength(1)
})

test('no test waits for long', () => {
  expect(findLongWaits(readTests())).toEqual([])
})
