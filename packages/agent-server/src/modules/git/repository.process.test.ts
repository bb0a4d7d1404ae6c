import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { Workspace } from '@slipway/agent'
import { expect, test, vi } from 'vitest'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { GitRepository } from './repository.ts'

test('a repository leaves no temporary folder, also when its programs cannot be ended', async () => {
  using it = temporaryDirectory()
  const [root, temporary] = [join(it.path, 'root'), join(it.path, 'tmp')]
  for (const path of [root, temporary]) mkdirSync(path)
  vi.stubEnv('TMPDIR', temporary)
  spawnSync('git', ['init', '-q', root])
  const env = { PATH: process.env.PATH ?? '', HOME: it.path }
  const repository = await GitRepository.open(root, env, new AbortController().signal)
  await repository?.runFields(['diff', '--name-only', '-z'], { comparesFiles: true })
  expect(readdirSync(temporary)).toHaveLength(1)
  vi.spyOn(Workspace.prototype, Symbol.asyncDispose).mockRejectedValueOnce(new Error('it still runs'))
  await expect(repository?.[Symbol.asyncDispose]()).rejects.toThrow('it still runs')
  expect(readdirSync(temporary)).toEqual([])
})
