import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { HostileRepository } from '@slipway/shared/git/testing'
import { expect, onTestFinished, test } from 'vitest'
import { applyToBranch, applyToWorkingTree, changedFiles } from './apply-changes.ts'
import { openWorkingTree } from './git.ts'
import { takeSnapshot, writePack } from './snapshot.ts'

const { signal } = new AbortController()

test('a folder is copied, and work comes back, without a program that its repository names', async () => {
  using it = new HostileRepository()
  await using git = await openWorkingTree(join(it.root, 'sub/..'), it.env)
  const snapshot = await takeSnapshot(git, signal)
  expect(snapshot.isDirty).toBe(true)
  await writePack(git, snapshot, join(it.env.HOME, 'pack'), signal)
  expect(readFileSync(join(it.env.HOME, 'pack'), 'latin1')).toMatch(/^PACK/)
  expect((await git.run(['ls-tree', '-r', '--name-only', snapshot.tree])).split('\n')).toEqual([
    ...['.gitattributes', '.gitmodules', 'a.clean', 'a.diff', 'a.lfs', 'a.process'],
    ...(await git.run(['ls-files', '--others', 'bare'])).split('\n'),
    'sub',
  ])
  // With the filter of the user.
  expect(await git.run(['cat-file', 'blob', `${snapshot.tree}:a.lfs`])).toBe('B')
  it.touch()
  const patch = Buffer.from(
    'diff --git a/a.clean b/a.clean\n--- a/a.clean\n+++ b/a.clean\n@@ -1 +1 @@\n-b\n\\ No newline at end of file\n+c\n\\ No newline at end of file\n',
  )
  const changes = { patch, head: snapshot.head, tree: snapshot.tree }
  expect(await changedFiles(git, changes)).toEqual([{ path: 'a.clean', added: '1', removed: '1' }])
  expect(await applyToBranch(git, changes, { branch: 'work', title: 'work' })).toEqual({
    hasUncommitted: true,
  })
  expect(await git.run(['cat-file', 'blob', 'work:a.clean'])).toBe('c')
  expect(await applyToWorkingTree(git, changes)).toBe('applied')
  expect(readFileSync(join(it.root, 'a.clean'), 'utf8')).toBe('c')
  expect(it.marks).toEqual([])
})

test('a change in the moment in which the index was written is in the copy', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-racy-'))
  onTestFinished(() => rmSync(directory, { recursive: true }))
  const run = (...args: string[]) => execFileSync('git', ['-C', directory, ...args])
  run('init', '-q')
  // Nothing else can make two changes of a file in one moment for sure.
  run('config', 'core.trustctime', 'false')
  const file = join(directory, 'a')
  writeFileSync(file, 'one')
  utimesSync(file, 1_700_000_000, 1_700_000_000)
  run('add', 'a')
  writeFileSync(file, 'two')
  utimesSync(file, 1_700_000_000, 1_700_000_000)
  utimesSync(join(directory, '.git/index'), 1_700_000_000, 1_700_000_000)
  await using git = await openWorkingTree(directory, process.env)
  const { tree } = await takeSnapshot(git, signal)
  expect(await git.run(['cat-file', 'blob', `${tree}:a`])).toBe('two')
})

test('a repository that is hidden in the files of a folder is none', async () => {
  using it = new HostileRepository()
  await expect(openWorkingTree(it.bare, it.env)).rejects.toThrow('is in no git working tree')
  expect(it.marks).toEqual([])
})
