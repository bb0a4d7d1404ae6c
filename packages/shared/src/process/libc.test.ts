import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, realpathSync, rmSync, symlinkSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { loadLibc } from './libc.ts'

const libc = await loadLibc()
const testOnLinux = test.skipIf(libc === undefined)

test('the library loads on Linux', () => {
  expect(libc !== undefined).toBe(process.platform === 'linux' && ['x64', 'arm64'].includes(process.arch))
})

testOnLinux('closeOnExec sets the flag, and fails for a descriptor that is not open', () => {
  const fd = openSync('/dev/null', 'r')
  expect(libc?.closeOnExec(fd)).toBe(true)
  const flags = /^flags:\s+0?(\d+)/m.exec(readFileSync(`/proc/self/fdinfo/${fd}`, 'utf8'))?.[1] ?? ''
  expect(Number.parseInt(flags, 8) & 0o2000000).toBe(0o2000000)
  closeSync(fd)
  expect(libc?.closeOnExec(999_999)).toBe(false)
})

testOnLinux('openDirectory tells of each call why it failed, also in the pool', async () => {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), 'slipway-libc-')))
  try {
    symlinkSync('.', join(directory, 'link'))
    const { ENOENT, ELOOP } = constants.errno
    const answers = { '.': 1, none: -ENOENT, link: -ELOOP }
    const calls = Object.entries(answers).flatMap((entry) => Array(80).fill(entry) as (typeof entry)[])
    const open = async ([name, wanted]: (typeof calls)[number]) => {
      const path = join(directory, name)
      for (const fd of [libc?.openDirectory(path) ?? 0, (await libc?.openDirectoryInPool(path)) ?? 0]) {
        if (fd > 0) closeSync(fd)
        expect(fd > 0 ? 1 : fd).toBe(wanted)
      }
    }
    await Promise.all(calls.map(open))
  } finally {
    rmSync(directory, { recursive: true })
  }
})

testOnLinux('peerCredentials names the process that listens', async () => {
  const directory = mkdtempSync(join(tmpdir(), 'slipway-libc-'))
  const path = join(directory, 'socket')
  const server = createServer((socket) => socket.resume()).listen(path)
  await once(server, 'listening')
  const socket = connect(path)
  await once(socket, 'connect')
  try {
    const { fd } = (socket as Socket & { readonly _handle: { readonly fd: number } })._handle
    expect(libc?.peerCredentials(fd)).toEqual({
      pid: process.pid,
      uid: process.getuid?.(),
      gid: process.getgid?.(),
    })
    expect(libc?.peerCredentials(999_999)).toBeUndefined()
  } finally {
    socket.destroy()
    server.close()
    rmSync(directory, { recursive: true })
  }
})

testOnLinux('disableDumps hides the environment from another process of the same user', async () => {
  const program = `
    const { loadLibc } = await import(${JSON.stringify(import.meta.resolve('./libc.ts'))})
    if (process.argv[1] === 'hide') (await loadLibc()).disableDumps()
    console.log('ready')
    setInterval(() => {}, 1000)`
  // Root reads everything: as root, both processes run as another user.
  const user = process.getuid?.() === 0 ? ['setpriv', '--reuid=65534', '--clear-groups'] : []
  for (const mode of ['show', 'hide']) {
    const [command = '', ...args] = [...user, process.execPath, '--input-type=module', '-e', program, mode]
    const child = spawn(command, args, {
      env: { ...process.env, CANARY: 'seen' },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    try {
      await once(child.stdout, 'data')
      const [reader = '', ...readerArgs] = [...user, 'cat', `/proc/${child.pid}/environ`]
      const { stdout } = spawnSync(reader, readerArgs, { encoding: 'utf8' })
      expect(stdout.includes('CANARY=seen')).toBe(mode === 'show')
    } finally {
      child.kill('SIGKILL')
      await once(child, 'close')
    }
  }
})

testOnLinux('returnFreedMemory: what is freed does not wait for a trim', () => {
  const measure = (prelude: string) => {
    const program = `
      import { readFileSync } from 'node:fs'
      import { loadLibc } from '${new URL('./libc.ts', import.meta.url)}'
      const libc = await loadLibc()
      ${prelude}
      // Each is mapped on its own with the option; without it they lie in the heap of the library.
      const use = (count, bytes) => {
        Array.from({ length: count }, () => Buffer.allocUnsafeSlow(bytes).fill(1))
      }
      const release = async () => {
        do {
          gc()
          await new Promise((done) => setTimeout(done, 10))
        } while (process.memoryUsage().arrayBuffers > 1_000_000)
      }
      // The largest buffer that is freed raises the thresholds of the library.
      use(1, 30_000_000)
      await release()
      use(20, 2_000_000)
      await release()
      // Without the pages of files, which the system takes away when it wants.
      console.log(/^RssAnon:\\s+(\\d+)/m.exec(readFileSync('/proc/self/status', 'utf8'))[1] * 1024)`
    const args = ['--expose-gc', '--input-type=module', '-e', program]
    return Number(spawnSync(process.execPath, args, { encoding: 'utf8' }).stdout)
  }
  expect(measure('libc.returnFreedMemory()')).toBeLessThan(measure('') - 20e6)
})
