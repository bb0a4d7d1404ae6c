import { existsSync, globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { leftToNight, longFiles, nightlyFiles, suffixes } from './suites.ts'

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

test('files that share a process replace no modules, which the next file would get', () => {
  const folders = '{bench,conformance,examples,packages,scripts}/**/*.test.ts'
  const files = globSync(folders, { cwd: root, exclude: ['**/node_modules/**'] }).filter(
    (file) => !suffixes.some((suffix) => file.endsWith(`.${suffix}.test.ts`)),
  )
  expect(files.length).toBeGreaterThan(400)
  const replaces = /\bvi\s*\.\s*(?:mock|doMock|resetModules)\(/
  expect(files.filter((file) => replaces.test(readFileSync(join(root, file), 'utf8')))).toEqual([])
})
