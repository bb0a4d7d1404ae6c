import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leftToNight, longFiles, nightlyFiles } from './suites.ts'

const root = join(import.meta.dirname, '../..')

test('the files that begin, and those that are left to the night, exist', () => {
  const files = [...longFiles, ...nightlyFiles.map(({ file }) => file)]
  expect(files.filter((file) => !existsSync(join(root, file)))).toEqual([])
})

test('only a whole run of the gate leaves files to the night, each in its project', () => {
  expect(leftToNight('own', {})).toEqual([])
  const gate = { SLIPWAY_TEST_GATE: '1' }
  const file = 'conformance/sandbox-server/sandboxes.sandbox.test.ts'
  expect(leftToNight('postgres', gate)).toContain(file)
  expect(leftToNight('own', gate)).not.toContain(file)
  expect(leftToNight('engines', gate)).toEqual(
    nightlyFiles.filter(({ project }) => project === undefined).map((one) => one.file),
  )
})
