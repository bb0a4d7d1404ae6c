import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { HostileRepository } from '@slipway/shared/git/testing'
import { afterAll, beforeEach, expect, test } from 'vitest'
import { createWorktree, openGit, removeWorktree } from '../../core/conversations/lifecycle/worktrees.ts'
import { temporaryDirectory } from '../../testing/fixtures.ts'
import { createPatch, createTarArchive } from '../files/archive.ts'
import { GitReader } from './git-reader.ts'

const it = new HostileRepository()
const directory = temporaryDirectory()
const { signal } = new AbortController()
const reader = new GitReader(it.env)

beforeEach(() => it.touch())
afterAll(() => {
  it[Symbol.dispose]()
  directory[Symbol.dispose]()
})

const archive = (path: string) => ({
  path,
  dataDirectory: directory.path,
  useDefaultExcludes: true,
  exclude: [],
  env: it.env,
  signal,
})

async function readAll(chunks: AsyncIterable<Buffer>): Promise<string> {
  return Buffer.concat(await Array.fromAsync(chunks)).toString('latin1')
}

const calls: [string, (root: string) => Promise<unknown>][] = [
  ['changes', (root) => reader.changes(root, undefined, signal)],
  ['changes since a commit', (root) => reader.changes(root, 'HEAD', signal)],
  ['difference of a file', (root) => reader.diff(join(root, 'a.clean'), {}, signal)],
  ['commits', (root) => reader.commits(root, 10, signal)],
  ['changes of a commit', (root) => reader.commitChanges(root, it.git('rev-parse', 'HEAD'), signal)],
  ['archive', async (root) => await readAll((await createTarArchive(archive(root))).chunks)],
  [
    'patch',
    async (root) => await readAll((await createPatch({ ...archive(root), baseRef: undefined })).chunks),
  ],
  [
    'patch since a commit',
    async (root) => await readAll((await createPatch({ ...archive(root), baseRef: 'HEAD' })).chunks),
  ],
]

for (const [place, root] of [
  ['repository', it.root],
  ['repository hidden in files', it.bare],
  ['submodule', join(it.root, 'sub')],
])
  test.each(calls)(`no program of a ${place} runs for: %s`, async (name, call) => {
    const before = it.marks
    const settled = await call(String(root)).then(
      () => 'done',
      (error) => String(error),
    )
    if (root === it.root) expect(settled, name).toBe('done')
    expect(it.marks).toEqual(before)
  })

test('a worktree is made and removed without a program of its repository, with the filters of the user', async () => {
  const before = it.marks
  const worktrees = join(directory.path, 'worktrees')
  await using git = await openGit(it.root, it.env)
  const path = await createWorktree(git, { worktrees, id: 'x', environment: it.env })
  expect(path).toBe(join(worktrees, 'x/work'))
  expect(readFileSync(join(String(path), 'a.clean'), 'utf8')).toBe('a')
  // The user's filter stores capitals.
  expect(readFileSync(join(String(path), 'a.lfs'), 'utf8')).toBe('a')
  expect(it.git('cat-file', 'blob', 'HEAD:a.lfs')).toBe('A')
  await removeWorktree(worktrees, 'x', it.env)
  expect(it.git('-c', 'core.fsmonitor=false', 'worktree', 'list').split('\n')).toHaveLength(1)
  expect(it.marks).toEqual(before)
})
