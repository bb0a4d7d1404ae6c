import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { type GitCommand, gitCommand } from '../process/git-command.ts'
import { RepositoryView, RepositoryViewError } from './repository-view.ts'
import { carelessCalls, carelessMarks, HostileRepository } from './testing/hostile-repository.ts'

function runIn(directory: string, env: Readonly<Record<string, string>>) {
  return async (git: GitCommand) => {
    const { status, stdout } = spawnSync(git.command, git.args, {
      cwd: directory,
      env: { ...env, ...git.env },
    })
    return { exitCode: status, stdout }
  }
}

test('the hostile repository is one: plain git runs its programs', () => {
  using it = new HostileRepository()
  for (const call of carelessCalls) {
    try {
      it.git(...call.split(' '))
    } catch {
      // Its programs fail.
    }
  }
  expect(it.marks).toEqual(expect.arrayContaining(carelessMarks))
})

test('a comparison runs none of them, also when they are configured after the view was made', async () => {
  using it = new HostileRepository()
  const run = runIn(it.root, it.env)
  await using view = await RepositoryView.open(run)
  writeFileSync(
    join(it.root, '.git/config'),
    `${readFileSync(join(it.root, '.git/config'))}[filter "lfs"]\n\tclean = "touch ${it.root}/late; cat"\n`,
  )
  const env = view?.env ?? {}
  const names = async (...args: string[]) => {
    const { exitCode, stdout } = await run(gitCommand([...args, '-z'], { env }))
    expect(exitCode).toBe(0)
    return stdout
      .toString()
      .split('\0')
      .filter((name) => name !== '')
  }
  expect(await names('diff', '--name-only')).toEqual(['a.clean', 'a.diff', 'a.lfs', 'a.process'])
  expect((await names('status', '--porcelain')).sort()).toEqual(
    [' M a.clean', ' M a.diff', ' M a.lfs', ' M a.process', '?? bare/'].sort(),
  )
  expect(it.marks).toEqual([])
})

test('filters of the user work in a view, and settings of the repository that are data are kept', async () => {
  using it = new HostileRepository()
  it.git('config', 'user.name', 'a "quoted" \\ name')
  it.git('config', 'branch.a"b\\c.merge', 'refs/heads/x')
  it.git('config', 'core.autocrlf', 'input')
  const run = runIn(it.root, it.env)
  await using view = await RepositoryView.open(run)
  const text = async (...args: string[]) =>
    (await run(gitCommand(args, { env: view?.env ?? {} }))).stdout.toString().trim()
  expect(await text('diff', '--', 'a.lfs')).toContain('-A\n\\ No newline at end of file\n+B')
  expect(await text('config', 'user.name')).toBe('a "quoted" \\ name')
  expect(await text('config', 'branch.a"b\\c.merge')).toBe('refs/heads/x')
  expect(await text('config', 'core.autocrlf')).toBe('input')
  expect(it.marks).toEqual([])
})

test('a working tree that the repository names elsewhere, and a repository in files, are none', async () => {
  using it = new HostileRepository()
  expect(await RepositoryView.open(runIn(it.bare, it.env))).toBe(undefined)
  const inner = join(it.root, 'inner')
  mkdirSync(inner)
  it.git('init', '-q', inner)
  it.git('--git-dir', join(inner, '.git'), 'config', 'core.worktree', it.env.HOME)
  expect(await RepositoryView.open(runIn(inner, it.env))).toBe(undefined)
  expect(it.marks).toEqual([])
})

test('a configuration that is cut, or cannot be read, is an error and not the lack of a repository', async () => {
  using it = new HostileRepository()
  const run = runIn(it.root, it.env)
  const changed = (changes: object) => async (git: GitCommand) => ({
    ...(await run(git)),
    ...(git.args.includes('config') ? changes : {}),
  })
  for (const changes of [{ isTruncated: true }, { exitCode: null }])
    await expect(RepositoryView.open(changed(changes))).rejects.toThrow(RepositoryViewError)
})

test('a git that does not know the options is refused', async () => {
  // As git 2.30 answers: paths may be relative.
  const run = async ({ args }: GitCommand) => {
    const options = args.slice(args.indexOf('rev-parse') + 1)
    const values: Record<string, string> = {
      '--show-toplevel': '/',
      '--git-dir': '.git',
      '--git-common-dir': '.git',
    }
    return {
      exitCode: 0,
      stdout: Buffer.from(options.map((option) => `${values[option] ?? option}\n`).join('')),
    }
  }
  await expect(RepositoryView.open(run)).rejects.toThrow('git 2.31 or newer is needed')
})

test('a subcommand that is not in the table is refused', () => {
  expect(() => gitCommand(['-C', '/x', 'submodule', 'update'])).toThrow('git submodule is not allowed here')
})
