import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { exists } from '../fs/exists.ts'
import { assertUntracked } from './assert-untracked.ts'

let root: string
let data: string

const git = (...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=a', '-c', 'user.email=a@b', ...args], { cwd: root, stdio: 'pipe' })

function write(path: string, text = 'x'): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

beforeEach(() => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'slipway-tracked-')))
  data = join(root, 'sub/.slipway')
  git('init', '-q')
})

afterEach(() => {
  vi.unstubAllEnvs()
  rmSync(root, { recursive: true })
})

test('a data directory with a tracked file is refused, with the repository and what to do', async () => {
  write('sub/.slipway/a b/ünï.json')
  write('sub/.slipway/other')
  git('add', 'sub/.slipway/a b')
  await expect(assertUntracked(data)).rejects.toThrow(
    new RegExp(
      `repository ${root}, which tracks sub/.slipway/a b/ünï.json: .*--data.*git rm -r --cached ${data}`,
    ),
  )
  git('rm', '-q', '-r', '--cached', data)
  await assertUntracked(data)
})

test('one that git does not track, a missing one and one with .gitignore alone are accepted', async () => {
  await assertUntracked(data)
  write('sub/.slipway/.gitignore', '*\n')
  git('add', '-f', '.')
  await assertUntracked(data)
  write('sub/.slipway/log.db')
  write('sub/.slipway-other/log.db')
  git('add', '.')
  await assertUntracked(data)
})

test('the index is that of the repository that holds the directory, whatever the environment says', async () => {
  write('sub/.slipway/log.db')
  git('add', '.')
  vi.stubEnv('GIT_DIR', '/nowhere')
  vi.stubEnv('GIT_INDEX_FILE', '/nowhere')
  await expect(assertUntracked(data)).rejects.toThrow('which tracks')
})

test('nothing that the repository configures runs', async () => {
  write('sub/.slipway/log.db')
  write('spy', '#!/bin/sh\ntouch "$0.ran"\n')
  execFileSync('chmod', ['+x', join(root, 'spy')])
  for (const name of [
    'core.fsmonitor',
    'core.pager',
    'alias.ls-files',
    'core.sshCommand',
    'core.alternateRefsCommand',
  ])
    git('config', name, `${name.startsWith('alias') ? '!' : ''}${join(root, 'spy')}`)
  write('.git/hooks/post-index-change', '#!/bin/sh\n')
  git('-c', 'core.fsmonitor=', 'add', 'spy')
  rmSync(join(root, 'spy.ran'), { force: true })
  await assertUntracked(data)
  expect(await exists(join(root, 'spy.ran'))).toBe(false)
})

test('a bare repository in the files does not answer for the one that tracks them', async () => {
  execFileSync('git', ['init', '-q', '--bare', data])
  git('-C', data, 'config', 'core.bare', 'false')
  git('-C', data, 'config', 'core.worktree', '.')
  write('sub/.slipway/refs/x')
  git('--git-dir', join(root, '.git'), '--work-tree', root, 'add', '-f', join(data, 'config'))
  await expect(assertUntracked(data)).rejects.toThrow('tracks sub/.slipway/config')
})

test('a tracked link to a directory, a clone and a submodule are refused', async () => {
  write('elsewhere/log.db')
  mkdirSync(join(root, 'sub'))
  symlinkSync('../elsewhere', data)
  git('add', 'sub')
  await expect(assertUntracked(data)).rejects.toThrow('tracks sub/.slipway:')
  git('add', 'elsewhere')
  await expect(assertUntracked(data)).rejects.toThrow('tracks elsewhere/log.db')
  await expect(assertUntracked(root)).rejects.toThrow(`the git repository ${root}`)
})

test('a .git that is no repository is passed over, and one that git cannot read is refused', async () => {
  write('sub/.slipway/log.db')
  mkdirSync(join(root, 'sub/.git'))
  await assertUntracked(data)
  git('add', 'sub/.slipway/log.db')
  await expect(assertUntracked(data)).rejects.toThrow('which tracks')
  write('.git/index', 'no index')
  await expect(assertUntracked(data)).rejects.toThrow(/is unknown: .*--data/s)
})

test('without git a directory in a repository is refused once it has data', async () => {
  vi.stubEnv('PATH', join(root, 'no-programs'))
  await assertUntracked(data)
  write('sub/.slipway/log.db')
  await expect(assertUntracked(data)).rejects.toThrow('git is not installed. Install git, or name')
})
