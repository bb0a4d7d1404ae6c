import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { PathNotAllowedError } from './resolve-path.ts'
import { Workspace } from './workspace.ts'

const env = { PATH: process.env.PATH ?? '/usr/bin:/bin' }
let base: string
let directory: string
let outside: string
let workspace: Workspace

beforeAll(async () => {
  base = await realpath(await mkdtemp(join(tmpdir(), 'workspace-')))
  directory = join(base, 'inside')
  outside = join(base, 'outside')
  await mkdir(join(directory, 'a/b'), { recursive: true })
  await mkdir(join(outside, 'deep'), { recursive: true })
  await writeFile(join(directory, 'file'), 'x')
  await writeFile(join(outside, 'secret'), 'x')
  await symlink(outside, join(directory, 'out'))
  await symlink(join(outside, 'secret'), join(directory, 'out-file'))
  await symlink(join(outside, 'not-yet'), join(directory, 'dangling-out'))
  await symlink('a/not-yet', join(directory, 'dangling-in'))
  await symlink('../not-yet', join(directory, 'a/dangling-up'))
  await symlink('../../../outside/not-yet', join(directory, 'a/b/dangling-relative'))
  await symlink('a/b', join(directory, 'link'))
  await symlink('loop', join(directory, 'loop'))
  await symlink(directory, join(base, 'alias'))
  workspace = await Workspace.open({ directory: join(base, 'alias'), env, readable: [join(outside, 'deep')] })
})

afterAll(async () => {
  await workspace[Symbol.asyncDispose]()
  await rm(base, { recursive: true })
})

async function isAlive(pid: number): Promise<boolean> {
  const stat = await readFile(`/proc/${pid}/stat`, 'latin1').catch(() => undefined)
  return stat !== undefined && !/\) [ZX] /.test(stat)
}

async function waitUntilGone(pid: number): Promise<boolean> {
  for (let round = 0; round < 200; round++) {
    if (!(await isAlive(pid))) return true
    await new Promise((done) => setTimeout(done, 25))
  }
  return false
}

test("a workspace's directory has no links in it", () => {
  expect(workspace.directory).toBe(directory)
})

test.each([
  ['file', 'file'],
  ['./a/../file', 'file'],
  ['', ''],
  ['.', ''],
  ['new', 'new'],
  ['new/', 'new'],
  ['new/er/est', 'new/er/est'],
  ['new/../file', 'file'],
  ['file/below', 'file/below'],
  ['link', 'a/b'],
  ['link/new', 'a/b/new'],
  ['link/..', 'a'],
  ['link/../new', 'a/new'],
  ['dangling-in', 'a/not-yet'],
  ['dangling-in/', 'a/not-yet'],
  ['a/dangling-up', 'not-yet'],
  ['out/../inside/file', 'file'],
  ['..data', '..data'],
])('the path %j is given as %j', async (path, real) => {
  const full = join(directory, real).replace(/\/$/, '')
  expect(await workspace.resolve(path, 'write')).toBe(full)
  if (path !== '') expect(await workspace.resolve(`${directory}/${path}`, 'read')).toBe(full)
  expect(await workspace.resolve(`${base}/alias/${path}`, 'read')).toBe(full)
})

test.each([
  '..',
  '../outside/secret',
  '../inside-not',
  'a/../../outside',
  'out',
  'out/',
  'out/secret',
  'out/new/er',
  'out-file',
  'dangling-out',
  'dangling-out/',
  'dangling-out//',
  'dangling-out/.',
  'dangling-out/below',
  'a/b/dangling-relative',
  'link/dangling-relative',
  'new/../../outside/secret',
  'new/../../../../../../../../../../etc/passwd',
  'new/../out',
  'new/../dangling-out',
  'loop',
  'loop/x',
  '/etc/passwd',
  '/',
  'nul\0',
  `${'long/'.repeat(2000)}x`,
])('the path %.60j is refused', async (path) => {
  await expect(workspace.resolve(path, 'read')).rejects.toBeInstanceOf(PathNotAllowedError)
  await expect(workspace.resolve(path, 'write')).rejects.toBeInstanceOf(PathNotAllowedError)
})

test('what is readable besides the workspace is read and not written', async () => {
  expect(await workspace.resolve('out/deep/log', 'read')).toBe(join(outside, 'deep/log'))
  await expect(workspace.resolve('out/deep/log', 'write')).rejects.toBeInstanceOf(PathNotAllowedError)
  await expect(workspace.resolve('out/deeper', 'read')).rejects.toBeInstanceOf(PathNotAllowedError)
})

test('a readable directory that does not exist yet is found behind links', async () => {
  const other = await Workspace.open({ directory, env, readable: [join(directory, 'out/later')] })
  expect(await other.resolve(join(outside, 'later/x'), 'read')).toBe(join(outside, 'later/x'))
})

test('a workspace that is not confined gives every path', async () => {
  const free = await Workspace.open({ directory, env, isConfined: false })
  expect(await free.resolve('/etc', 'write')).toBe('/etc')
  await expect(free.resolve('nul\0', 'read')).rejects.toBeInstanceOf(PathNotAllowedError)
})

test('no path of any parts leads out of the workspace, whatever resolve gives', async () => {
  const parts = fc.constantFrom(
    '..',
    '.',
    '',
    'a',
    'b',
    'out',
    'link',
    'new/../out',
    'new/../dangling-out',
    'loop',
    'new',
    'file',
    'dangling-out',
    'dangling-in',
  )
  await fc.assert(
    fc.asyncProperty(fc.array(parts, { maxLength: 8 }), async (path) => {
      const given = await workspace.resolve(path.join('/') || '.', 'write').catch((error: unknown) => error)
      if (given instanceof PathNotAllowedError) return
      // What it gives is inside, and is no link that leads elsewhere.
      expect(given).toMatch(new RegExp(`^${RegExp.escape(directory)}(/|$)`))
      expect(await realpath(given as string).catch(() => given)).toBe(given)
    }),
    { numRuns: 300 },
  )
})

test('a program sees the workspace and its variables, and nothing of the server', async () => {
  const exit = await workspace.run('sh', ['-c', 'pwd; echo $MORE; env | cut -d= -f1 | sort'], {
    env: { MORE: '1' },
  })
  expect(exit.stdout.toString().split('\n')).toEqual([directory, '1', 'MORE', 'PATH', 'PWD', ''])
  expect(exit).toMatchObject({ exitCode: 0, isTruncated: false, isTimedOut: false })
})

test.each([
  ['exit 7', 7],
  ['kill -9 $$', null],
])('after %j the exit code is %j', async (script, exitCode) => {
  expect((await workspace.run('sh', ['-c', script])).exitCode).toBe(exitCode)
})

test('a program that is missing, cannot be started or cannot be one exits with 127', async () => {
  for (const command of ['no-such-program', './file', 'nul\0', '']) {
    const exit = await workspace.run(command, [])
    expect(exit.exitCode).toBe(127)
    expect(exit.stderr.length).toBeGreaterThan(0)
  }
  expect((await workspace.run('echo', ['x'.repeat(300_000)])).exitCode).toBe(127)
  expect((await workspace.run('echo', [], { cwd: join(directory, 'nowhere') })).exitCode).toBe(127)
})

test('a program that cannot be started does no harm without an error listener', async () => {
  const child = workspace.spawn('no-such-program', [])
  await new Promise((done) => child.once('close', done))
})

test('input is passed on, and a program that does not read it is no failure', async () => {
  const input = Buffer.alloc(4_000_000, 'x')
  expect((await workspace.run('cat', [], { input })).stdout.equals(input)).toBe(true)
  expect((await workspace.run('true', [], { input })).exitCode).toBe(0)
})

test('each stream is stored up to its limit and read to its end', async () => {
  const exit = await workspace.run('sh', ['-c', 'head -c 3000000 /dev/zero; echo done >&2'], {
    maxBytes: 1000,
  })
  expect(exit).toMatchObject({ exitCode: 0, isTruncated: true })
  expect(exit.stdout.length).toBe(1000)
  expect(exit.stderr.toString()).toBe('done\n')
})

test('a limit of time kills the whole group', async () => {
  const script = 'sleep 1000 & echo $!; echo $$; wait'
  const exit = await workspace.run('sh', ['-c', script], { timeoutMs: 500 })
  expect(exit).toMatchObject({ exitCode: null, isTimedOut: true })
  for (const pid of exit.stdout.toString().trim().split('\n'))
    expect(await waitUntilGone(Number(pid))).toBe(true)
})

test('a limit of more than a timer takes is no limit of nothing', async () => {
  expect((await workspace.run('sleep', ['0.1'], { timeoutMs: 2 ** 40 })).isTimedOut).toBe(false)
})

test('an aborted program is killed, one whose signal was aborted before does nothing', async () => {
  const exit = await workspace.run('sleep', ['1000'], {}, AbortSignal.timeout(200))
  expect(exit).toMatchObject({ exitCode: null, isTimedOut: false })
  expect((await workspace.run('sleep', ['1000'], {}, AbortSignal.abort())).exitCode).toBe(null)
})

test('a child left in the background with the streams open is not waited for, and is killed', async () => {
  const exit = await workspace.run('sh', ['-c', 'sleep 1000 & echo $!; head -c 200000 /dev/zero'])
  expect(exit.exitCode).toBe(0)
  expect(exit.stdout.length > 200_000).toBe(true)
  expect(await waitUntilGone(Number.parseInt(exit.stdout.toString(), 10))).toBe(true)
})

test('closing kills all processes and refuses new ones', async () => {
  const closed = await Workspace.open({ directory, env })
  const child = closed.spawn('sh', ['-c', 'sleep 1000 & echo $!; wait'])
  const ends = new Promise((done) => child.once('close', done))
  const inner = await new Promise<number>((done) => child.stdout.once('data', (data) => done(Number(data))))
  const { pty } = await closed.openTerminal('sh', ['-c', 'setsid sleep 1000 & echo $!; wait'], {
    columns: 80,
    rows: 24,
  })
  const detached = await new Promise<number>((done) =>
    pty.onData((data) => done(Number.parseInt(data.toString(), 10))),
  )
  expect(await isAlive(inner)).toBe(true)
  await closed[Symbol.asyncDispose]()
  await ends
  for (const pid of [inner, detached, pty.pid]) expect(await waitUntilGone(pid)).toBe(true)
  expect(() => closed.spawn('true', [])).toThrow('closed')
  expect((await closed.run('true', [])).exitCode).toBe(127)
  await expect(closed.openTerminal('true', [], { columns: 80, rows: 24 })).rejects.toThrow('closed')
})

test('closing a terminal kills all processes started in it', async () => {
  const { pty, close } = await workspace.openTerminal(
    'sh',
    ['-c', '(setsid sleep 1000 & echo $!) ; nohup sleep 1000 & echo $!; wait'],
    {
      columns: 80,
      rows: 24,
    },
  )
  let output = ''
  const pids = await new Promise<number[]>((done) => {
    pty.onData((data) => {
      output += data
      const found = [...output.matchAll(/^(\d+)\r$/gm)].map((match) => Number(match[1]))
      if (found.length === 2) done(found)
    })
  })
  for (const pid of pids) expect(await isAlive(pid)).toBe(true)
  await close()
  for (const pid of [...pids, pty.pid]) expect(await waitUntilGone(pid)).toBe(true)
})

test('a reserved directory that cannot be reached is reserved as it is named', async () => {
  const unreachable = join(directory, 'loop')
  await using opened = await Workspace.open({ directory, env, reserved: [unreachable] })
  expect(opened.isReserved(join(unreachable, 'x'))).toBe(true)
  expect(opened.isReserved(join(directory, 'file'))).toBe(false)
})
