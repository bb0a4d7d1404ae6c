import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { temporaryDirectory } from '../../../testing/fixtures.ts'
import { createWorktree, openGit } from './worktrees.ts'

function createRepository() {
  const directory = temporaryDirectory()
  const root = join(directory.path, 'work')
  const env = { PATH: process.env.PATH ?? '', HOME: directory.path, GIT_CEILING_DIRECTORIES: tmpdir() }
  const git = (...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x', ...args], {
      cwd: root,
      env,
      stdio: 'pipe',
      encoding: 'utf8',
    }).trim()
  mkdirSync(root)
  git('init', '-q', '-b', 'main')
  for (const name of ['a', 'b.late', 'c']) writeFileSync(join(root, name), name)
  writeFileSync(join(root, '.gitattributes'), '*.late filter=late')
  git('add', '-A')
  git('commit', '-qm', 'first')
  return {
    root,
    env,
    git,
    worktrees: join(directory.path, 'trees'),
    setFilter: (smudge: string) =>
      writeFileSync(
        join(directory.path, '.gitconfig'),
        `[filter "late"]\n\tsmudge = ${smudge}\n\trequired\n`,
      ),
    branches: () => git('for-each-ref', '--format=%(refname:short)', 'refs/heads'),
    [Symbol.dispose]: () => directory[Symbol.dispose](),
  }
}

const files = ['.git', '.gitattributes', 'a', 'b.late', 'c']

test('a checkout that fails leaves neither worktree nor branch, and its repetition writes all files', async () => {
  using it = createRepository()
  const options = { worktrees: it.worktrees, id: 'x', environment: it.env }
  await using git = await openGit(it.root, it.env)
  it.setFilter('false')
  expect(await createWorktree(git, options)).toBe(undefined)
  expect(it.git('worktree', 'list').split('\n')).toHaveLength(1)
  expect(it.branches()).toBe('main')
  expect(existsSync(join(it.worktrees, 'x'))).toBe(false)
  it.setFilter('cat')
  const path = String(await createWorktree(git, options))
  expect(readdirSync(path).sort()).toEqual(files)
  expect(it.branches()).toBe('main\nopenhands/x')
})

test('a worktree whose checkout a crash cut is made again, a complete one is kept', async () => {
  using it = createRepository()
  const options = { worktrees: it.worktrees, id: 'x', environment: it.env }
  await using git = await openGit(it.root, it.env)
  it.setFilter('cat')
  const path = join(it.worktrees, 'x/work')
  it.git('worktree', 'add', '-q', '--no-checkout', '-b', 'openhands/x', path)
  writeFileSync(join(path, 'a'), '')
  writeFileSync(join(it.root, '.git/worktrees/work/index.lock'), '')
  expect(await createWorktree(git, options)).toBe(path)
  expect(readdirSync(path).sort()).toEqual(files)
  expect(readFileSync(join(path, 'a'), 'utf8')).toBe('a')
  writeFileSync(join(path, 'own'), '')
  expect(await createWorktree(git, options)).toBe(path)
  expect(existsSync(join(path, 'own'))).toBe(true)
})

test('a request that is repeated meanwhile gets the same worktree', async () => {
  using it = createRepository()
  const options = { worktrees: it.worktrees, id: 'x', environment: it.env }
  await using git = await openGit(it.root, it.env)
  it.setFilter('cat')
  const paths = await Promise.all([createWorktree(git, options), createWorktree(git, options)])
  expect(paths).toEqual([join(it.worktrees, 'x/work'), join(it.worktrees, 'x/work')])
  expect(readdirSync(String(paths[0])).sort()).toEqual(files)
})
