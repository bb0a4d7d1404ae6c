import { globSync, readdirSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'
import { packageTests, stages } from './stages.ts'

const root = resolve(import.meta.dirname, '../..')

test.each(readdirSync(join(root, 'packages')))('a fault in %s has tests that start programs', (name) => {
  const patterns = packageTests(`packages/${name}/src/x.ts`).map((folder) => `${folder}/**/*.*.test.{ts,tsx}`)
  expect(globSync(patterns, { cwd: root, exclude: ['**/node_modules/**'] })).not.toEqual([])
})

test('a stage runs one file at a time, and ends with the first failure', () => {
  for (const { name, args } of stages.slice(0, 3)) {
    const words = args('packages/agent/src/x.ts')
    expect([name, words.includes('--maxWorkers=1'), words.includes('--bail')]).toEqual([name, true, true])
  }
})
