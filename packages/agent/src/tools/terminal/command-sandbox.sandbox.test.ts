import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, readFile, realpath, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { Secrets } from '../../secrets/secrets.ts'
import type { ActiveSandbox } from '../../workspace/command-sandbox.ts'
import { Workspace } from '../../workspace/workspace.ts'
import type { Tool, ToolFactory } from '../core/tool.ts'
import { openFileEditor } from '../files/file-editor.ts'
import { canSandboxCommands } from '../testing/can-sandbox-commands.ts'
import { openBackgroundTerminal } from './background.ts'
import { openTerminal } from './terminal.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 120_000 })

/** Not below /tmp, which is another one in the sandbox. */
let root: string
let directory: string
let outside: string
const closers: (() => Promise<unknown>)[] = []

beforeEach(async (context) => {
  if (!canSandboxCommands()) context.skip('bubblewrap does not work on this host')
  root = await realpath(await mkdtemp('/var/tmp/slipway-command-sandbox-'))
  directory = join(root, 'work')
  outside = join(root, 'outside')
  for (const name of ['work', 'outside', 'conversation', 'data'])
    await mkdir(join(root, name), { recursive: true })
  await writeFile(join(outside, 'precious'), 'before\n')
  await writeFile(join(root, 'data', 'secret.key'), 'the key\n')
})
afterEach(async () => {
  for (const close of closers.splice(0).reverse()) await close()
  await rm(root, { recursive: true, force: true })
})

const writable: ActiveSandbox = { mode: 'workspace-write', network: false }

async function open(sandbox: ActiveSandbox | undefined, factory: ToolFactory = openTerminal, path?: string) {
  const env = { PATH: path ?? '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', HOME: outside }
  const workspace = await Workspace.open({
    ...{ directory, env, sandbox, readable: [join(root, 'conversation')] },
    ...{ reserved: [join(root, 'data')], isConfined: false },
  })
  const context = { workspace, secrets: new Secrets(), directory: join(root, 'conversation') }
  const tool = (await factory(context, {})) as Tool
  closers.push(
    () => workspace[Symbol.asyncDispose](),
    async () => await tool.close?.(),
  )
  const call = async (args: Record<string, unknown>, isOutside = false) => {
    const parsed = tool.parse(args)
    if ('error' in parsed) throw new Error(parsed.error)
    const result = await tool.run(parsed.action, new AbortController().signal, { isOutside })
    const texts = result.content.map((block) => (block.type === 'text' ? block.text : ''))
    return { ...result, text: texts.join('\n') }
  }
  const run = async (command: string, isOutside = false) => {
    const result = await call({ command, timeout: 60 }, isOutside)
    return { text: result.text, exitCode: 'exit_code' in result ? result.exit_code : undefined }
  }
  return { call, run, tool }
}

const precious = () => readFile(join(outside, 'precious'), 'utf8')

test('a shell in the sandbox is occupied while a daemon of it runs', async () => {
  const { run, tool } = await open(writable)
  await run('true')
  expect(await tool.isOccupied?.()).toBe(false)
  await run('setsid -f sleep 600')
  expect(await tool.isOccupied?.()).toBe(true)
})

test('commands write below the workspace and in their own /tmp, and the shell keeps its state', async () => {
  const { run } = await open(writable)
  expect((await run('mkdir sub && cd sub && echo a > f && X=1')).text).toContain('[Exit code 0')
  expect((await run('echo "$X $(cat f) $PWD"; echo b > "/tmp/$$.own" && cat /tmp/*.own')).text).toContain(
    `1 a ${directory}/sub\nb`,
  )
  expect(await readFile(join(directory, 'sub/f'), 'utf8')).toBe('a\n')
})

// Each tries to change a file outside of the workspace; $OUT is the directory.
const attacks: readonly (readonly [string, string])[] = [
  ['a plain write', 'echo after > "$OUT/precious"'],
  ['a new file', 'echo after > "$OUT/new"'],
  ['a link out of the workspace', 'ln -s "$OUT" link; echo after > link/precious'],
  ['a link that was there before', 'echo after > before/precious'],
  ['a hard link', 'ln "$OUT/precious" hard && echo after > hard'],
  ['the root of its process', 'echo after > "/proc/self/root$OUT/precious"'],
  ['the root of the first process', 'echo after > "/proc/1/root$OUT/precious"'],
  ['the roots of all processes', 'for p in /proc/[0-9]*; do echo after > "$p/root$OUT/precious"; done'],
  [
    'directories of all processes',
    'for p in /proc/[0-9]*; do echo after > "$p/cwd/../outside/precious"; done',
  ],
  [
    'a writable remount',
    'mount -o remount,rw / ; mount -o remount,rw,bind "$OUT"; echo after > "$OUT/precious"',
  ],
  ['unmounting', 'umount -l /tmp; umount -l /run; echo after > "$OUT/precious"'],
  [
    'a nested mount in its own namespaces',
    `unshare -Urm sh -c 'mount -o remount,rw,bind / /; umount -l /tmp; mount --bind "$OUT" . ; echo after > precious; echo after > "$OUT/precious"'`,
  ],
  ['another root', 'mkdir r; chroot / sh -c "echo after > $OUT/precious"'],
  ['a device node', 'mknod disk b 8 0 && dd if=/dev/zero of=disk count=1'],
  ['removing', 'rm -rf "$OUT"'],
  ['renaming', 'mv "$OUT" moved'],
  // The value that is there: a failure of this test must not change the machine.
  ['a core pattern', 'cd /proc/sys/kernel && cat core_pattern > /tmp/p && cat /tmp/p > core_pattern'],
  ['a mode', 'chmod 777 "$OUT/precious"; chown 1 "$OUT/precious"'],
]

test('nothing outside of the workspace is changed, whatever is tried', async () => {
  await symlink(outside, join(directory, 'before'))
  const { run } = await open(writable)
  await run(`OUT=${outside}; export OUT`)
  for (const [name, command] of attacks) {
    const { exitCode } = await run(`(${command})`)
    expect(await precious(), name).toBe('before\n')
    expect(existsSync(join(outside, 'new')), name).toBe(false)
    expect(exitCode, name).not.toBe(0)
  }
})

test('processes, sockets and data of the server are out of reach', async () => {
  const shared = await mkdtemp(join(tmpdir(), 'slipway-command-sandbox-'))
  const server = createServer((socket) => socket.end('reached')).listen(join(shared, 'engine.sock'))
  const port = createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1')
  const engine = createServer((socket) => socket.end('reached')).listen(join(outside, 'engine.sock'))
  closers.push(async () => {
    for (const one of [server, port, engine]) one.close()
    await rm(shared, { recursive: true, force: true })
  })
  await new Promise((done) => port.once('listening', done))
  const address = port.address()
  const { run } = await open(writable)
  expect((await run(`cat ${root}/data/secret.key`)).text).not.toContain('the key')
  const processes = (await run('ls -d /proc/[0-9]* | wc -l')).text
  expect(Number.parseInt(processes, 10)).toBeLessThan(10)
  const web = typeof address === 'object' ? address?.port : 0
  expect((await run(`exec 3<>/dev/tcp/127.0.0.1/${web} && cat <&3`)).text).not.toContain('reached')
  expect((await run(`ls ${shared}/engine.sock`)).exitCode).not.toBe(0)
  expect((await run('ls -A /run | wc -l')).text).toMatch(/^0\n/)
  const connect = `python3 -c 'import socket; s = socket.socket(socket.AF_UNIX); s.connect("${outside}/engine.sock"); print(s.recv(9))'`
  expect((await run(connect)).text).not.toContain('reached')
  expect((await run(connect, true)).text).toContain('reached')
})

test('with network a program reaches it', async () => {
  const port = createServer((socket) => socket.end('reached')).listen(0, '127.0.0.1')
  closers.push(async () => port.close())
  await new Promise((done) => port.once('listening', done))
  const address = port.address()
  const { run } = await open({ ...writable, network: true })
  const web = typeof address === 'object' ? address?.port : 0
  expect((await run(`cat < /dev/tcp/127.0.0.1/${web}`)).text).toContain('reached')
})

test('read-only: neither commands nor file tools change the workspace', async () => {
  await writeFile(join(directory, 'f'), 'x\n')
  const sandbox: ActiveSandbox = { mode: 'read-only', network: false }
  const { run } = await open(sandbox)
  const { text } = await run('cat f; echo y > f')
  expect(text).toContain('x\n')
  expect(text).toContain('outside_sandbox')
  expect(text).toContain('change no files')
  const editor = await open(sandbox, openFileEditor)
  const edit = await editor.call({
    ...{ command: 'str_replace', path: join(directory, 'f') },
    ...{ old_str: 'x', new_str: 'y' },
  })
  expect(edit).toMatchObject({ is_error: true, text: expect.stringContaining('read-only') })
  expect(await readFile(join(directory, 'f'), 'utf8')).toBe('x\n')
})

test('file tools write only below the workspace, also where they may write anywhere without a sandbox', async () => {
  const args = { command: 'create', path: join(outside, 'made'), file_text: 'x' }
  const boxed = await (await open(writable, openFileEditor)).call(args)
  expect(boxed).toMatchObject({ is_error: true, text: expect.stringContaining('outside the workspace') })
  expect(existsSync(join(outside, 'made'))).toBe(false)
  expect((await (await open(undefined, openFileEditor)).call(args)).is_error).toBe(false)
})

test('what was allowed runs outside, in its own shell; the next command is inside again', async () => {
  const { run } = await open(writable)
  expect((await run(`echo after > ${outside}/precious`)).text).toContain('outside_sandbox')
  await run(`echo after > ${outside}/precious`, true)
  expect(await precious()).toBe('after\n')
  await run(`echo again > ${outside}/precious`)
  expect(await precious()).toBe('after\n')
})

test('input is not typed into a program outside by a call that stays inside', async () => {
  const { call, run } = await open(writable)
  await call({ command: 'bash', timeout: 1 }, true)
  await call({ command: `echo after > ${outside}/precious`, is_input: true, timeout: 1 })
  expect(await precious()).toBe('before\n')
  expect((await run('echo free')).text).toContain('free')
})

test('a running program is noticed when it waits, interrupted, and ends with the terminal', async () => {
  const { call } = await open(writable)
  const asking = await call({ command: 'read -p "Name? " name; echo "<$name>"' })
  expect(asking.text).toContain('it waits for input')
  expect((await call({ command: 'Ada', is_input: true })).text).toContain('<Ada>')
  await call({ command: 'sleep 600; sleep 601', timeout: 1 })
  const stopped = await call({ command: 'C-c', is_input: true, timeout: 30 })
  expect(stopped.text).toContain('[Exit code 130')
  await call({ command: 'sleep 602 & sleep 603', timeout: 1 })
})

test('background commands are in the sandbox too', async () => {
  const { call } = await open(writable, openBackgroundTerminal)
  const result = await call({
    ...{ operation: 'start', timeout: 30 },
    command: `echo after > ${outside}/precious; echo inside > f`,
  })
  expect(result).toMatchObject({ status: 'ended', exit_code: 0 })
  expect(await precious()).toBe('before\n')
  expect(await readFile(join(directory, 'f'), 'utf8')).toBe('inside\n')
})

test('without bubblewrap nothing is executed', async () => {
  const { run } = await open(writable, openTerminal, dirname(process.execPath))
  const { text } = await run(`touch ${directory}/f`)
  expect(text).toContain('is bubblewrap installed?')
  expect(existsSync(join(directory, 'f'))).toBe(false)
})

test('a program in the sandbox starts in its own folder, which is hidden from others', async () => {
  const own = join(root, 'data', 'own')
  await mkdir(own)
  await using workspace = await Workspace.open({
    ...{ directory, env: { PATH: '/usr/bin:/bin' }, sandbox: writable, reserved: [join(root, 'data')] },
  })
  const { child } = await workspace.openProgram('sh', ['-c', 'pwd; touch made'], {
    cwd: own,
    writable: [own],
  })
  const [output] = await once(child.stdout, 'data')
  expect(String(output)).toBe(`${own}\n`)
  await vi.waitFor(() => expect(existsSync(join(own, 'made'))).toBe(true))
})
