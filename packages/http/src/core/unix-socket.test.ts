import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { createApp } from '../app.ts'
import { listen } from '../listen.ts'
import { unixFetch } from './unix-fetch.ts'
import { singleUseAgent } from './unix-socket.ts'

class TemporaryDirectory implements AsyncDisposable {
  readonly path: string

  constructor(path: string) {
    this.path = path
  }

  static async create(): Promise<TemporaryDirectory> {
    return new TemporaryDirectory(await mkdtemp(join(tmpdir(), 'socket-')))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await rm(this.path, { recursive: true })
  }
}

const web = () => createApp({}, {}, { openapi: { openapi: '3.1.0' }, log: () => {} })

test('a Unix socket needs no key, belongs to its user only, and is removed at the stop', async () => {
  await using folder = await TemporaryDirectory.create()
  const socketPath = join(folder.path, 'a b%é.sock')
  const before = process.umask(0)
  try {
    const listening = await listen(web(), { socketPath })
    expect(process.umask()).toBe(0)
    expect(listening.url).toBe(`http+unix://${encodeURIComponent(socketPath)}`)
    expect(listening.port).toBe(0)
    const { mode } = await stat(socketPath)
    expect((mode & 0o777).toString(8)).toBe('600')
    expect(await (await unixFetch(`${listening.url}/openapi.json`)).text()).toBe('{"openapi":"3.1.0"}')
    await listening.close()
    expect(await readdir(folder.path)).toEqual([])
    await expect(unixFetch(`${listening.url}/openapi.json`)).rejects.toThrow(TypeError)
  } finally {
    process.umask(before)
  }
})

test('a stale socket file is replaced, that of a live process is not', async () => {
  await using folder = await TemporaryDirectory.create()
  const socketPath = join(folder.path, 'x.sock')
  const script = 'require("net").createServer().listen(process.argv[1], () => console.log("ready"))'
  const other = spawn(process.execPath, ['-e', script, socketPath], { stdio: ['ignore', 'pipe', 'inherit'] })
  await once(other.stdout, 'data')
  await expect(listen(web(), { socketPath })).rejects.toThrow(
    `Cannot listen on ${socketPath}: another process serves it`,
  )
  const alive = connect(socketPath)
  await once(alive, 'connect')
  alive.destroy()
  other.kill('SIGKILL')
  await once(other, 'exit')
  expect((await stat(socketPath)).isSocket()).toBe(true)
  const listening = await listen(web(), { socketPath })
  expect((await unixFetch(`${listening.url}/openapi.json`)).status).toBe(200)
  await expect(listen(web(), { socketPath })).rejects.toThrow('another process serves it')
  expect((await unixFetch(`${listening.url}/openapi.json`)).status).toBe(200)
  await listening.close()
})

test('a file that is no socket is not replaced', async () => {
  await using folder = await TemporaryDirectory.create()
  const file = join(folder.path, 'file')
  await writeFile(file, 'text')
  await symlink(file, join(folder.path, 'link'))
  for (const name of ['file', 'link', '.']) {
    const socketPath = join(folder.path, name)
    await expect(listen(web(), { socketPath })).rejects.toThrow('there is a file that is no socket')
  }
  expect((await stat(file)).size).toBe(4)
})

test('an impossible socket path has a readable error', async () => {
  await using folder = await TemporaryDirectory.create()
  const none = join(folder.path, 'none/x.sock')
  await expect(listen(web(), { socketPath: none })).rejects.toThrow(
    `Cannot listen on ${none}: there is no such folder`,
  )
  const long = join(folder.path, 'x'.repeat(120))
  await expect(listen(web(), { socketPath: long })).rejects.toThrow('the path is too long for a socket')
  await chmod(folder.path, 0o700)
  expect(await readdir(folder.path)).toEqual([])
})

test('an answer that comes before the end of a request is read, also when the server has closed', async () => {
  await using folder = await TemporaryDirectory.create()
  const path = join(folder.path, 'a.sock')
  // Another process, because this one blocks below until the server has closed.
  const server = spawn(process.execPath, ['-e', answerAndClose, path], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    await once(server.stdout, 'data')
    const outgoing = request({
      socketPath: path,
      method: 'POST',
      agent: singleUseAgent,
      headers: { 'content-length': 4 },
    })
    const answered = once(outgoing, 'response')
    const [socket] = await once(outgoing, 'socket')
    await once(socket, 'connect')
    outgoing.write('ab')
    // The head and the first bytes leave at the end of this turn.
    await setImmediate()
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500)
    outgoing.end('cd')
    const [answer] = await answered
    expect(answer.statusCode).toBe(401)
  } finally {
    server.kill()
  }
})

const answerAndClose = `
const server = require('node:net').createServer((socket) => {
  socket.once('data', () => {
    socket.end('HTTP/1.1 401 Unauthorized\\r\\nConnection: close\\r\\nContent-Length: 0\\r\\n\\r\\n', () => socket.destroy())
  })
})
server.listen(process.argv[1], () => console.log('ready'))
`
