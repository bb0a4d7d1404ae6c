import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { must } from '@slipway/protocol'
import { expect, test } from 'vitest'
import { ToolFixtures } from '../tools/testing/fixtures.ts'
import { defaultLimits } from './shadow-repository.ts'
import { WorkspaceCheckpoints } from './workspace-checkpoints.ts'

const directories = 200
/** 100,000 in all at night. */
const filesEach = process.env.SLIPWAY_NIGHTLY === '1' ? 500 : 100
const last = filesEach - 1

test('a step is restored in a tree of many thousands of files', { timeout: 600_000 }, async () => {
  await using fixtures = await ToolFixtures.open()
  const name = (directory: number, file: number) => fixtures.path(`d${directory}`, `f${file}`)
  for (let directory = 0; directory < directories; directory++) {
    mkdirSync(fixtures.path(`d${directory}`))
    for (let file = 0; file < filesEach; file++)
      writeFileSync(name(directory, file), `${directory} ${file % 50}\n`)
  }
  const { workspace, directory } = fixtures.context
  const checkpoints = new WorkspaceCheckpoints({
    workspace,
    directory: join(directory, 'checkpoints'),
    excluded: [],
    // Of a loaded machine.
    limits: { ...defaultLimits, timeoutMs: 300_000 },
  })
  const save = async (event: string) => {
    expect(await checkpoints.save(event)).toBeUndefined()
    return must((await checkpoints.list()).at(-1), 'a checkpoint').id
  }
  const before = await save('e1')
  for (let directory = 0; directory < 100; directory++) appendFileSync(name(directory, 7), 'changed\n')
  await rm(fixtures.path('d150'), { recursive: true })
  await save('e2')
  appendFileSync(name(0, 0), 'of the user\n')
  const { saved, paths } = await checkpoints.restore(before)
  expect(paths).toHaveLength(100 + filesEach + 1)
  expect(readFileSync(name(42, 7), 'utf8')).toBe('42 7\n')
  expect(readFileSync(name(150, last), 'utf8')).toBe(`150 ${last % 50}\n`)
  await checkpoints.restore(saved.id)
  expect(readFileSync(name(0, 0), 'utf8')).toBe('0 0\nof the user\n')
})
