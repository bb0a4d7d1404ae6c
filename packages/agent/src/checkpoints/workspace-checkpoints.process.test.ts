import { execFileSync } from 'node:child_process'
import { lstatSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { must } from '@slipway/protocol'
import { beforeEach, expect, test, vi } from 'vitest'
import { ToolFixtures } from '../tools/testing/fixtures.ts'
import { type CheckpointLimits, defaultLimits } from './shadow-repository.ts'
import { WorkspaceCheckpoints } from './workspace-checkpoints.ts'

vi.setConfig({ testTimeout: 240_000 })
/** A loaded machine must not turn checkpoints off. */
const patient = { ...defaultLimits, timeoutMs: 120_000 }

let fixtures: ToolFixtures
beforeEach(async () => {
  fixtures = await ToolFixtures.open()
  return () => fixtures[Symbol.asyncDispose]()
})

function open(limits: CheckpointLimits = patient, excluded: readonly string[] = []): WorkspaceCheckpoints {
  const { workspace, directory } = fixtures.context
  return new WorkspaceCheckpoints({ workspace, directory: join(directory, 'checkpoints'), excluded, limits })
}

function write(path: string, content: string | Buffer): void {
  mkdirSync(dirname(fixtures.path(path)), { recursive: true })
  writeFileSync(fixtures.path(path), content)
}

const read = (path: string) => readFileSync(fixtures.path(path), 'utf8')
const remove = (path: string) => rmSync(fixtures.path(path), { recursive: true })
const git = (directory: string, ...args: readonly string[]) =>
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@example.test', ...args], {
    cwd: fixtures.path(directory),
  })

/** All files with their contents, without those of git itself. */
async function tree(): Promise<Record<string, string>> {
  const entries = await readdir(fixtures.directory, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => !entry.isDirectory() && !/\/\.git(\/|$)/.test(entry.parentPath))
  const paths = files.map((entry) => join(entry.parentPath, entry.name).slice(fixtures.directory.length + 1))
  return Object.fromEntries(
    paths.sort().map((path) => {
      const isLink = lstatSync(fixtures.path(path)).isSymbolicLink()
      return [path, isLink ? 'a link' : readFileSync(fixtures.path(path), 'latin1')]
    }),
  )
}

async function saved(checkpoints: WorkspaceCheckpoints, event: string): Promise<string> {
  expect(await checkpoints.save(event)).toBeUndefined()
  return must((await checkpoints.list()).at(-1), 'a checkpoint').id
}

test('any step is restored, and what a restore replaces is stored first', async () => {
  const checkpoints = open()
  write('a.txt', 'one\n')
  write('dir/b.txt', 'b\r\n')
  write('binary', Buffer.from([0, 255, 13, 10]))
  symlinkSync('a.txt', fixtures.path('link'))
  const before = await tree()
  const first = await saved(checkpoints, 'e1')
  write('a.txt', 'two\n')
  remove('dir')
  write('dir', 'a file now')
  write('new/deep/c.txt', 'c\n')
  const between = await tree()
  const second = await saved(checkpoints, 'e2')
  write('a.txt', 'edited by the user\n')
  write('of the user.txt', 'precious\n')
  const edited = await tree()
  const { saved: present, paths } = await checkpoints.restore(first)
  expect(await tree()).toEqual(before)
  expect([...paths].sort()).toEqual(['a.txt', 'dir', 'dir/b.txt', 'new/deep/c.txt', 'of the user.txt'])
  expect(present).toMatchObject({ kind: 'restore', event_id: null, skipped: [] })
  await checkpoints.restore(second)
  expect(await tree()).toEqual(between)
  await checkpoints.restore(present.id)
  expect(await tree()).toEqual(edited)
  expect((await checkpoints.list()).map(({ kind, event_id }) => [kind, event_id])).toEqual([
    ['step', 'e1'],
    ['step', 'e2'],
    ['restore', null],
    ['restore', null],
    ['restore', null],
  ])
})

test('a restore keeps what the user alone has changed, names what both have, and is undone', async () => {
  const checkpoints = open()
  for (const name of ['agent.txt', 'both.txt', 'user.txt', 'gone.txt']) write(name, 'old\n')
  const first = await saved(checkpoints, 'e1')
  write('agent.txt', 'agent\n')
  write('both.txt', 'agent\n')
  write('made by the agent.txt', 'agent\n')
  await checkpoints.saveEnd()
  write('both.txt', 'user\n')
  write('user.txt', 'user\n')
  remove('gone.txt')
  write('über/made by the user.txt', 'user\n')
  write('tab\tand\nline.txt', 'user\n')
  await saved(checkpoints, 'e2')
  write('agent.txt', 'agent again\n')
  await checkpoints.saveEnd()
  const before = await tree()
  const restored = await checkpoints.restore(first)
  expect(await tree()).toEqual({
    'agent.txt': 'old\n',
    'both.txt': 'old\n',
    'user.txt': 'user\n',
    'über/made by the user.txt': 'user\n',
    'tab\tand\nline.txt': 'user\n',
  })
  const kept = ['gone.txt', 'tab\tand\nline.txt', 'user.txt', 'über/made by the user.txt']
  expect([...restored.kept].sort()).toEqual(kept)
  expect(restored.clashes).toEqual(['both.txt'])
  write('later.txt', 'user\n')
  await checkpoints.restore(restored.saved.id)
  expect(await tree()).toEqual({ ...before, 'later.txt': 'user\n' })
})

test('a step has one checkpoint, also after a restart', async () => {
  write('a', '1')
  await saved(open(), 'e1')
  write('a', '2')
  await saved(open(), 'e1')
  expect(await open().list()).toHaveLength(1)
  await saved(open(), 'e2')
  expect((await open().list()).map(({ event_id }) => event_id)).toEqual(['e1', 'e2'])
})

test('a diff shows what a step changed, and after the newest checkpoint what is different now', async () => {
  const checkpoints = open()
  write('a.txt', 'one\ntwo\n')
  write('gone.txt', 'x\n')
  const first = await saved(checkpoints, 'e1')
  write('a.txt', 'one\n2\n')
  remove('gone.txt')
  write('ü new.txt', 'y\n')
  const second = await saved(checkpoints, 'e2')
  write('later.txt', 'z\n')
  const diff = await checkpoints.diff(first)
  expect(diff).toMatchObject({ total: 3, is_truncated: false })
  expect(diff.files).toEqual([
    { path: 'a.txt', status: 'changed' },
    { path: 'gone.txt', status: 'deleted' },
    { path: 'ü new.txt', status: 'added' },
  ])
  expect(diff.patch).toContain('-two\n+2\n')
  expect(diff.patch).not.toContain('later.txt')
  expect((await checkpoints.diff(second)).files).toEqual([{ path: 'later.txt', status: 'added' }])
})

test('ignored files are not stored and stay; one that a restore would replace is stored first', async () => {
  const checkpoints = open()
  write('.env', 'old')
  write('node_modules/x/index.js', 'x')
  write('.gitignore', 'node_modules/\n')
  const first = await saved(checkpoints, 'e1')
  remove('.env')
  await saved(checkpoints, 'e2')
  write('.gitignore', 'node_modules/\n.env\n')
  write('.env', 'secret of the user')
  write('node_modules/x/index.js', 'changed')
  const { saved: present } = await checkpoints.restore(first)
  expect(read('.env')).toBe('old')
  expect(read('node_modules/x/index.js')).toBe('changed')
  await checkpoints.restore(present.id)
  expect(read('.env')).toBe('secret of the user')
})

test('repositories within the workspace are stored as files, and their own data is not touched', async () => {
  const checkpoints = open()
  write('repo/a.txt', 'a')
  write('repo/.gitignore', 'ignored\n')
  write('repo/ignored', 'i')
  git('repo', 'init', '-q')
  git('repo', 'add', 'a.txt')
  git('repo', 'commit', '-q', '-m', 'x')
  write('repo/inner/b.txt', 'b')
  git('repo/inner', 'init', '-q')
  git('.', 'init', '-q')
  const first = await saved(checkpoints, 'e1')
  const head = git('repo', 'rev-parse', 'HEAD').toString()
  const status = () => git('repo', 'status', '--porcelain').toString()
  const statusBefore = status()
  write('repo/a.txt', 'changed')
  write('repo/new.txt', 'n')
  write('repo/inner/b.txt', 'changed')
  await saved(checkpoints, 'e2')
  await checkpoints.restore(first)
  expect([read('repo/a.txt'), read('repo/inner/b.txt'), read('repo/ignored')]).toEqual(['a', 'b', 'i'])
  expect(status()).toBe(statusBefore)
  expect(git('repo', 'rev-parse', 'HEAD').toString()).toBe(head)
})

test('nothing of the workspace runs or changes what is stored', async () => {
  const marker = join(fixtures.outside, 'ran')
  const program = `touch ${marker}; cat`
  for (const directory of ['.', 'repo']) {
    write(`${directory}/a.txt`, 'x\r\n$Id$\r\n')
    write(`${directory}/.gitattributes`, '* text eol=lf filter=evil diff=evil ident\n')
    git(directory, 'init', '-q')
    for (const name of ['filter.evil.clean', 'filter.evil.smudge', 'core.fsmonitor', 'diff.evil.textconv'])
      git(directory, 'config', name, program)
  }
  write('.git/hooks/post-checkout', `#!/bin/sh\n${program}`)
  const checkpoints = open()
  const before = await tree()
  const first = await saved(checkpoints, 'e1')
  write('a.txt', 'other')
  write('repo/a.txt', 'other')
  expect((await checkpoints.diff(first)).total).toBe(2)
  await checkpoints.restore(first)
  expect(await tree()).toEqual(before)
  expect(await readdir(fixtures.outside)).toEqual([])
})

test('large files and directories of the server are left out, and stay', async () => {
  const checkpoints = open({ ...patient, maxFileBytes: 10 }, [fixtures.path('data')])
  write('small', 'small')
  write('grows', 'small')
  write('large', 'x'.repeat(11))
  write('data/db', 'd')
  const first = await saved(checkpoints, 'e1')
  expect((await checkpoints.list())[0]).toMatchObject({ skipped: ['large'] })
  write('grows', 'grown by much')
  write('data/db', 'D')
  write('large', 'y'.repeat(11))
  await saved(checkpoints, 'e2')
  const { saved: present } = await checkpoints.restore(first)
  expect(await tree()).toMatchObject({ grows: 'small', large: 'y'.repeat(11), 'data/db': 'D' })
  await checkpoints.restore(present.id)
  expect(read('grows')).toBe('grown by much')
})

test.each([
  ['too many files', { maxFiles: 1 }, /files are new/],
  ['too many bytes', { maxBytes: 1 }, /MiB/],
  ['too slow', { timeoutMs: 1 }, /too large/],
])('%s: checkpoints are off, with a reason that stays', async (_, limits, reason) => {
  write('a', 'aa')
  write('b', 'bb')
  const checkpoints = open({ ...patient, ...limits })
  expect(await checkpoints.save('e1')).toMatch(reason)
  expect(await checkpoints.save('e2')).toBeUndefined()
  expect(await open().offReason()).toMatch(reason)
  expect(await open().list()).toEqual([])
})

test('what git locked when it was killed is unlocked by the next start', async () => {
  write('a', 'a')
  await saved(open(), 'e1')
  for (const file of ['index', 'config', 'HEAD', 'packed-refs', 'refs/heads/checkpoints'])
    writeFileSync(join(fixtures.context.directory, 'checkpoints', `${file}.lock`), '')
  write('a', 'b')
  await saved(open(), 'e2')
})

test('git killed at any moment leaves what the next start can use', async () => {
  for (let timeoutMs = 1; timeoutMs <= 24; timeoutMs++) {
    write('a', String(timeoutMs))
    await open({ ...patient, timeoutMs }).save('e1')
    rmSync(join(fixtures.context.directory, 'checkpoints/off'), { force: true })
    await open().list()
  }
  await saved(open(), 'e2')
})

test('an unknown checkpoint is not found', async () => {
  const checkpoints = open()
  await saved(checkpoints, 'e1')
  for (const id of ['0'.repeat(40), 'HEAD', '--all']) {
    await expect(checkpoints.restore(id)).rejects.toMatchObject({ code: 'not_found' })
    await expect(checkpoints.diff(id)).rejects.toMatchObject({ code: 'not_found' })
  }
})

test('an interrupted checkpoint leaves the next one possible', async () => {
  write('a', 'a')
  const checkpoints = open()
  const stop = new AbortController()
  const saving = checkpoints.save('e1', stop.signal)
  stop.abort()
  expect(await saving).toBeUndefined()
  await saved(checkpoints, 'e2')
})
