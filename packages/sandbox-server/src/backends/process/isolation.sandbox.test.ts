import { randomBytes } from 'node:crypto'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { chmod, mkdir, readFile, readlink, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, type TestContext, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive, waitForValue } from '../backend.contract.ts'
import type { SandboxConfig } from '../backend.ts'
import { listProcesses } from './host/processes.ts'
import type { ProcessBackendOptions } from './process-backend.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import {
  agentServerFiles,
  openProcessBackend,
  type ProcessBackendFixture,
} from './testing/process-backend-fixture.ts'

const minuteMs = 60_000

/** A running probe in a jail; skips the test where there is none. */
async function startJailed(
  context: TestContext,
  config: Partial<SandboxConfig> = {},
  options: Partial<ProcessBackendOptions> = {},
): Promise<{
  at: ProcessBackendFixture
  id: string
  order: SandboxConfig
  run(code: string): ReturnType<typeof runInside>
}> {
  const at = await openProcessBackend(options)
  onTestFinished(() => at.close())
  const { kind, notes } = await at.backend.isolation()
  if (kind === 'none') context.skip(`no isolation on this host: ${notes[0]}`)
  const full = at.createConfig({ command: at.node(probeScript), ...config })
  await at.backend.start(full)
  await waitAlive(at.backend, full.id)
  return { at, id: full.id, order: full, run: (code) => runInside(at.backend, full.id, code) }
}

const read = (path: string) => `return require('node:fs').readFileSync(${JSON.stringify(path)}, 'utf8')`
const write = (path: string) => `require('node:fs').writeFileSync(${JSON.stringify(path)}, 'x')`

test('from inside, files of the host and of the server are missing', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const canary = randomBytes(16).toString('hex')
  const { at, run, id } = await startJailed(context)
  const beside = join(at.directory, 'of-the-server')
  await writeFile(beside, canary, { mode: 0o644 })
  const other = at.createConfig({ command: at.node(probeScript) })
  await at.backend.start(other)
  await waitAlive(at.backend, other.id)
  await runInside(at.backend, other.id, write('secret-of-the-other'))
  const theirs = join(sandboxPaths(at.directory, other.id).workspace, 'project/secret-of-the-other')
  expect(existsSync(theirs)).toBe(true)
  const paths = [
    '/etc/shadow',
    '/etc/sudoers',
    homedir(),
    '/root',
    '/sys',
    '/var/lib',
    '/var/run/docker.sock',
    '/run/docker.sock',
    beside,
    theirs,
    at.directory,
    sandboxPaths(at.directory, id).record,
    sandboxPaths(at.directory, id).root,
  ]
  for (const path of paths) {
    const { result } = await run(`return require('node:fs').existsSync(${JSON.stringify(path)})`)
    // Of a home directory that contains the program, only the path to it is visible.
    const isOnTheWay = agentServerFiles.some((each) => each.startsWith(`${path}/`))
    if (!isOnTheWay) expect([path, result]).toEqual([path, false])
  }
  const { result: users } = await run(read('/etc/passwd'))
  expect(users).not.toContain(readFileSync('/etc/passwd', 'utf8').split('\n')[1])
  const { result: found } = await run(`
    return require('node:child_process').spawnSync('grep', ['-rls', '${canary}', '/', '--exclude-dir=proc', '--exclude-dir=usr',
      '--exclude-dir=node_modules', '--exclude-dir=dev'], { encoding: 'utf8' }).stdout`)
  expect(found).toBe('')
})

test('what is readable does not uncover what is hidden in it', { timeout: 2 * minuteMs }, async (context) => {
  const outer = await openProcessBackend()
  onTestFinished(() => outer.close())
  const data = join(outer.directory, 'data')
  const program = join(data, 'sandboxes', 'program')
  await chmod(outer.directory, 0o755)
  await mkdir(program, { recursive: true })
  await writeFile(join(data, 'secret'), 'secret')
  await writeFile(join(outer.directory, 'shown'), 'shown')
  await writeFile(join(program, 'shown'), 'shown')
  const { run } = await startJailed(
    context,
    {},
    {
      directory: join(data, 'sandboxes'),
      inaccessible: [data],
      readable: [...agentServerFiles, outer.directory, program],
    },
  )
  expect(await run(read(join(outer.directory, 'shown')))).toEqual({ result: 'shown' })
  expect(await run(read(join(program, 'shown')))).toEqual({ result: 'shown' })
  expect(await run(read(join(data, 'secret')))).toEqual({ error: 'ENOENT' })
  const { result } = await run(
    `return require('node:fs').readdirSync(${JSON.stringify(join(data, 'sandboxes'))})`,
  )
  expect(result).toEqual(['program'])
  expect((await run(write(join(data, 'x')))).error).toMatch(/EROFS|EACCES/)
})

test('from inside, only its own folders can be written', { timeout: 2 * minuteMs }, async (context) => {
  const { run } = await startJailed(context)
  const closed = [
    '/x',
    '/usr/x',
    '/usr/bin/x',
    '/etc/x',
    '/etc/passwd',
    '/home/x',
    '/dev/x',
    '/run/x',
    '/var/x',
  ]
  for (const path of [
    ...closed,
    process.execPath,
    join(dirname(agentServerFiles[1] ?? ''), 'package.json'),
    '/proc/sysrq-trigger',
  ]) {
    const { error } = await run(write(path))
    expect([path, error]).toEqual([path, expect.stringMatching(/^(EROFS|EACCES|EPERM|ETXTBSY|ENOENT)$/)])
  }
  for (const path of [
    '/workspace/x',
    '/data/x',
    '/home/slipway/x',
    '/tmp/x',
    '/var/tmp/x',
    '/dev/shm/x',
    'x',
  ]) {
    expect([path, await run(write(path))]).toEqual([path, { result: null }])
  }
  const { result } = await run(`
    const { spawnSync } = require('node:child_process')
    const sh = (text) => spawnSync('sh', ['-c', text], { encoding: 'utf8' })
    return [sh('mount -t tmpfs x /tmp').status, sh('unshare -Ur true').status, sh('chroot / true').status,
      sh('hostname other').status, sh('mknod /tmp/d b 7 0').status].map((status) => status === 0)`)
  expect(result).toEqual([false, false, false, false, false])
})

test('from inside, it is a user without rights, alone with its processes', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const { run, at, id } = await startJailed(context, { env: { SECRET: 'canary-of-the-order' } })
  const status = String((await run(read('/proc/self/status'))).result)
  expect(status).toMatch(/^NoNewPrivs:\s+1$/m)
  for (const set of ['Inh', 'Prm', 'Eff', 'Bnd', 'Amb'])
    expect(status).toMatch(new RegExp(`^Cap${set}:\\s+0+$`, 'm'))
  expect((await run('return [process.getuid(), process.getgid(), process.getgroups()]')).result).toEqual([
    1000,
    1000,
    [1000],
  ])
  const { result: pids } = await run(
    `return require('node:fs').readdirSync('/proc').filter((name) => /^\\d+$/.test(name)).map(Number)`,
  )
  expect(pids).toEqual(expect.arrayContaining([1]))
  expect(Array.isArray(pids) && pids.length).toBeLessThan(10)
  expect(pids).not.toContain(process.pid)
  const { result: kill } = await run(`
    try { process.kill(${process.pid}, 0); return 'killed' } catch (error) { return error.code }`)
  expect(kill).toMatch(/ESRCH|EPERM/)
  const { result: fds } = await run(`
    const fs = require('node:fs')
    return fs.readdirSync('/proc/self/fd').flatMap((fd) => { try { return [fs.readlinkSync('/proc/self/fd/' + fd)] } catch { return [] } })`)
  const files = Array.isArray(fds)
    ? fds.filter((path) => typeof path === 'string' && /^\/(?!dev\/null|proc\/)/.test(path))
    : ['none']
  expect(files.filter((path) => !String(path).includes('fifo'))).toEqual([])
  // Its user of the host owns nothing.
  if (process.getuid?.() === 0) {
    const all = await listProcesses()
    const mine = all.filter(({ pid }) => textOfProcess(pid, 'cmdline').includes('parseArgs'))
    const uids = mine.map(({ pid }) => /^Uid:\s+(\d+)/m.exec(textOfProcess(pid, 'status'))?.[1])
    expect(uids.some((uid) => Number(uid) >= 1_900_000_000)).toBe(true)
  }
  // Its secrets are in no list of processes and in no file beside it.
  for (const { pid } of await listProcesses())
    expect(textOfProcess(pid, 'cmdline')).not.toContain('canary-of-the-order')
  for (const name of readdirSync(sandboxPaths(at.directory, id).root, { withFileTypes: true })) {
    if (!name.isFile()) continue
    expect(await readFile(join(name.parentPath, name.name), 'latin1')).not.toContain('canary-of-the-order')
  }
})

function textOfProcess(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'utf8')
  } catch {
    return ''
  }
}

test('environment variables have no effect outside of the jail', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const env = {
    LD_PRELOAD: '/workspace/evil.so',
    BASH_ENV: '/workspace/evil',
    ENV: '/workspace/evil',
    'odd.name': 'x',
  }
  const { run, at, id } = await startJailed(context, { env })
  expect((await run('return process.env')).result).toMatchObject(env)
  for (const { pid } of await listProcesses()) {
    if (!textOfProcess(pid, 'cmdline').includes(sandboxPaths(at.directory, id).root)) continue
    expect(textOfProcess(pid, 'environ')).not.toContain('evil')
  }
})

test('an order with a NUL character, a wrong name or a wrong folder is broken and starts nothing', {
  timeout: 2 * minuteMs,
}, async () => {
  const at = await openProcessBackend()
  onTestFinished(() => at.close())
  const isWalled = (await at.backend.isolation()).kind !== 'none'
  const wrong: Partial<SandboxConfig>[] = [
    { env: { A: 'x\0--bind\0/\0/host' } },
    { env: { 'A\0B': 'x' } },
    { env: { 'A=B': 'x' } },
    { env: { '': 'x' } },
    { workingDir: '/workspace\0/x' },
    { workingDir: 'project' },
    { workingDir: '/workspace/../etc' },
    ...['/', '/usr', '/etc/x', '/proc', '/tmp', '/home', '/sys', '/run/slipway'].map((workingDir) => ({
      workingDir,
    })),
    { command: ['/bin/true', '\0'] },
    ...(isWalled ? [] : [{ env: { 'a.b': 'x' } }]),
  ]
  for (const each of wrong) {
    const order = at.createConfig(each)
    await at.backend.start(order)
    const now = await observe(at.backend, order.id)
    expect([each, now.state]).toEqual([each, 'broken'])
    expect(now.detail).toBeTruthy()
    // What was wrong with one order is not wrong with the next.
    if (each === wrong[0]) {
      const right = { ...order, env: {}, command: at.node(probeScript) }
      await at.backend.resume(right)
      await waitAlive(at.backend, order.id)
    }
    await at.backend.remove(order.id)
    expect(await at.listRemains(order.id)).toEqual([])
  }
})

test('it works in the requested folder, wherever that is, and the folder persists', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const folders = ['/workspace/a/b', '/home/openhands/workspace', '/home/slipway/x', '/srv']
  for (const workingDir of folders) {
    const { run, at, order, id } = await startJailed(context, { workingDir })
    expect((await run('return process.cwd()')).result).toBe(workingDir)
    expect((await observe(at.backend, id)).workingDir).toBe(workingDir)
    await run(write('stored'))
    await at.kill(id)
    await waitForValue(
      async () => ((await observe(at.backend, id)).state === 'stopped' ? true : undefined),
      'it has stopped',
    )
    await at.backend.resume(order)
    await waitAlive(at.backend, id)
    expect((await run(read('stored'))).result).toBe('x')
  }
})

test('a link that it puts in the place of its folder leads nowhere outside', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const { run, at, order, id } = await startJailed(context, { workingDir: '/workspace/link/deep' })
  const target = join(at.directory, 'outside')
  await mkdir(target, { mode: 0o777 })
  await run(`
    const fs = require('node:fs')
    process.chdir('/')
    fs.rmSync('/workspace/link', { recursive: true })
    fs.symlinkSync(${JSON.stringify(target)}, '/workspace/link')`)
  await at.kill(id)
  await waitForValue(
    async () => ((await observe(at.backend, id)).state === 'stopped' ? true : undefined),
    'it has stopped',
  )
  await at.backend.resume(order)
  await waitForValue(
    async () => ((await observe(at.backend, id)).state === 'stopped' ? true : undefined),
    'it cannot start',
  )
  expect(readdirSync(target)).toEqual([])
})

test('a link that it puts in the place of its socket is not followed', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const { at, order, id } = await startJailed(context, { network: 'none' })
  const host = createServer((_, answer) => answer.end('{"status":"ok, of the host"}'))
  const path = join(at.directory, 'h.sock')
  await new Promise<void>((resolve) => host.listen(path, resolve))
  onTestFinished(() => void host.close())
  await at.backend.remove(id)
  const evil = `
    require('node:fs').symlinkSync(${JSON.stringify(path)}, '/data/agent.sock')
    setInterval(() => {}, 1000)`
  const again = { ...order, command: at.node(evil) }
  await at.backend.start(again)
  const socket = join(sandboxPaths(at.directory, id).data, 'agent.sock')
  await waitForValue(async () => (await readlinkOf(socket)) === path || undefined, 'the link is there')
  for (let i = 0; i < 5; i++) {
    const now = await observe(at.backend, id)
    expect([now.state, now.addresses]).toEqual(['running', {}])
  }
})

async function readlinkOf(path: string): Promise<string | undefined> {
  return readlink(path).catch(() => undefined)
}

test('without a network it reaches the server by the socket that it sees, also a new one of the same name', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const holder = await openProcessBackend()
  onTestFinished(() => holder.close())
  const folder = join(holder.directory, 'sockets')
  await mkdir(folder)
  const hostSocket = join(folder, 'host.sock')
  const { run, at } = await startJailed(context, { network: 'none' }, { hostSocket })
  const url = at.backend.hostUrl(1, 'none') ?? ''
  expect(url).toBe('http+unix://%2Frun%2Fslipway%2Fhost.sock')
  expect(at.backend.hostUrl(4711, 'shared')).toBe('http://127.0.0.1:4711')
  const askHost = `
    return new Promise((resolve) => {
      const { request } = require('node:http')
      const sent = request({ socketPath: decodeURIComponent(${JSON.stringify(url)}.slice('http+unix://'.length)), path: '/' }, (got) => {
        got.setEncoding('utf8'); let text = ''; got.on('data', (part) => { text += part }); got.on('end', () => resolve(text)) })
      sent.on('error', (error) => resolve(error.code))
      sent.end()
    })`
  for (const words of ['first', 'second']) {
    const host = createServer((_, answer) => answer.end(words))
    await new Promise<void>((resolve) => host.listen(hostSocket, resolve))
    await chmod(hostSocket, 0o666)
    expect(await run(askHost)).toEqual({ result: words })
    await new Promise((resolve) => host.close(resolve))
  }
  expect((await run(write('/run/slipway/x'))).error).toMatch(/EROFS|EACCES/)
})

test('its own agent server runs without a network', { timeout: 2 * minuteMs }, async (context) => {
  const { at, id } = await startJailed(context, { network: 'none', command: [] })
  const { addresses } = await waitAlive(at.backend, id)
  expect(addresses.AGENT_SERVER).toMatch(/^http\+unix:/)
  await at.backend.pause(id)
  expect(await observe(at.backend, id)).toMatchObject({ state: 'paused', addresses })
  await at.backend.remove(id)
  expect(await at.listRemains(id)).toEqual([])
})

test('system calls that load code into the kernel or mount file systems are refused', {
  timeout: 2 * minuteMs,
}, async (context) => {
  const { run } = await startJailed(context)
  expect(String((await run(read('/proc/self/status'))).result)).toMatch(/^Seccomp:\s+2$/m)
  // keyctl(KEYCTL_GET_KEYRING_ID) and io_uring_setup need no rights: only the filter refuses them.
  const calls = `
import ctypes, os, platform
libc = ctypes.CDLL(None, use_errno=True)
arm = platform.machine() == 'aarch64'
numbers = {'keyctl': 219 if arm else 250, 'io_uring_setup': 425, 'userfaultfd': 282 if arm else 323, 'getpid': 172 if arm else 39}
for name, number in numbers.items():
    print(name, libc.syscall(number, 0, 0, 0) > 0 and 'works' or ctypes.get_errno())`
  const { result } = await run(`
    return require('node:child_process').spawnSync('python3', ['-c', ${JSON.stringify(calls)}], { encoding: 'utf8' }).stdout`)
  if (result === null || result === '') context.skip('python3 is not installed')
  expect(String(result).trim().split('\n')).toEqual([
    'keyctl 1',
    'io_uring_setup 1',
    'userfaultfd 1',
    'getpid works',
  ])
})

test('its own agent server opens no debugger on a signal', { timeout: 2 * minuteMs }, async (context) => {
  const { at, order } = await startJailed(context)
  await at.backend.remove(order.id)
  const own = at.createConfig({ network: 'none' })
  await at.backend.start(own)
  await waitAlive(at.backend, own.id)
  const root = sandboxPaths(at.directory, own.id).data
  const server = (await listProcesses()).find(({ pid }) => {
    const command = textOfProcess(pid, 'cmdline')
    return command.startsWith(process.execPath) && command.includes('agent-server') && sees(pid, root)
  })
  expect(server).toBeDefined()
  process.kill(server?.pid ?? 0, 'SIGUSR1')
  // A signal that is not caught would end it; the debugger would listen.
  await waitAlive(at.backend, own.id)
  expect(textOfProcess(server?.pid ?? 0, 'net/tcp')).not.toMatch(/0100007F:240D /)
})

/** Whether a folder is mounted for a process. */
function sees(pid: number, folder: string): boolean {
  return textOfProcess(pid, 'mountinfo').includes(folder)
}
