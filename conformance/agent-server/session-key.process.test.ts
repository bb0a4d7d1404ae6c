import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readdir, readFile, realpath, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, relative } from 'node:path'
import { text } from 'node:stream/consumers'
import { usualDataDirectory } from '@slipway/shared/process'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, expect, test } from 'vitest'
import { WebSocket } from 'ws'
import {
  AgentDriver,
  bashStep,
  finishStep,
  scriptedModel,
  toolCall,
  toolCallsStep,
} from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'

/** The session key that a server makes when none is configured: who gets in without it, and who finds it. */
const directories: string[] = []
afterAll(async () => {
  for (const path of directories) await rm(path, { recursive: true, force: true })
})

async function createDirectory(): Promise<string> {
  const path = await realpath(await mkdtemp(join(tmpdir(), 'slipway-key-')))
  directories.push(path)
  return path
}

/** Of the user who starts servers and commands. */
const home = await createDirectory()

/** A server that makes its own key; the command finds its data directory in `directory`. */
async function startKeyed(directory: string, env: Readonly<Record<string, string>> = {}) {
  const { path: data } = await usualDataDirectory('agent', { env: { XDG_DATA_HOME: home }, directory })
  const server = await startAgentServer(data, { SLIPWAY_NO_KEY: '', ...env })
  const keyPath = join(data, 'session.key')
  const key = (await readFile(keyPath, 'utf8')).trim()
  return { ...server, data, keyPath, key, [Symbol.asyncDispose]: async () => void (await server.stop()) }
}

/** Runs a command of the CLI in a directory, without settings of this process. */
async function runCli(directory: string, args: readonly string[], env: Record<string, string> = {}) {
  const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM)_/.test(name))
  const child = spawn(process.execPath, [commandMain, ...args], {
    cwd: directory,
    env: { ...Object.fromEntries(inherited), XDG_DATA_HOME: home, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const closed = once(child, 'close')
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), closed])
  return { stdout, stderr, code }
}

/** Tries to run a command that touches a file. Returns the status. */
async function attack(url: string, file: string, headers: Record<string, string>): Promise<number> {
  const response = await fetch(`${url}/api/bash/execute_bash_command`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ command: `touch '${file}'`, timeout: 20 }),
  })
  await response.arrayBuffer()
  return response.status
}

/** The status of an upgrade, or the code with which a socket that opened is closed after a first frame. */
function upgrade(url: string, headers: Record<string, string>): Promise<number> {
  return new Promise((done, fail) => {
    const ws = new WebSocket(`${url.replace('http', 'ws')}/sockets/bash-events`, { headers })
    ws.on('unexpected-response', (_request, { statusCode = 0 }) => done(statusCode))
    ws.on('open', () => ws.send('{}')).on('close', done)
    ws.on('error', (error) => (ws.readyState === ws.CLOSED ? fail(error) : undefined))
  })
}

test('without the key, neither a local program nor a page of another port runs a command', async () => {
  const directory = await createDirectory()
  await using server = await startKeyed(directory)
  const { url, key } = server
  const touched = join(directory, 'touched')
  const page = { origin: 'http://localhost:3000' }
  const withKey = { 'x-session-api-key': key }
  expect(await attack(url, touched, {})).toBe(401)
  expect(await attack(url, touched, page)).toBe(403)
  expect(await attack(url, touched, { ...page, ...withKey })).toBe(403)
  expect(await attack(url, touched, { 'x-session-api-key': `${key}x` })).toBe(401)
  expect(await upgrade(url, {})).toBe(4001)
  expect(await upgrade(url, page)).toBe(403)
  expect(await upgrade(url, { ...page, ...withKey })).toBe(403)
  const asked = { ...page, 'access-control-request-method': 'POST' }
  const preflight = await fetch(`${url}/api/settings`, { method: 'OPTIONS', headers: asked })
  expect([preflight.status, preflight.headers.get('access-control-allow-origin')]).toEqual([403, null])
  expect(await preflight.text()).toContain('SLIPWAY_ALLOWED_ORIGINS')
  expect(existsSync(touched)).toBe(false)
  expect(await attack(url, touched, { origin: url, ...withKey })).toBe(200)
  expect(existsSync(touched)).toBe(true)
  // Nothing in them is secret, and the page has a field for the key.
  for (const path of ['/docs', '/openapi.json', '/health', '/server_info'])
    expect([path, (await fetch(url + path)).status]).toEqual([path, 200])
})

test('the key is kept for later starts, for its user alone, and is not printed to other programs', async () => {
  const directory = await createDirectory()
  const first = await startKeyed(directory)
  await first.stop()
  expect(first.key).toMatch(/^[\w-]{43}$/)
  expect((await stat(first.keyPath)).mode & 0o777).toBe(0o600)
  const second = await startKeyed(directory)
  await second.stop()
  expect(second.key).toBe(first.key)
  expect(first.output() + second.output()).not.toContain(first.key)
  expect(second.output()).toContain(first.keyPath)
  // As a file that came with a repository.
  await writeFile(first.keyPath, 'a-key-that-somebody-else-knows')
  await chmod(first.keyPath, 0o644)
  const third = await startKeyed(directory)
  await third.stop()
  expect(third.key).toMatch(/^[\w-]{43}$/)
  expect((await stat(first.keyPath)).mode & 0o777).toBe(0o600)
})

test('a configured key and SLIPWAY_NO_KEY make no file; the latter opens on loopback only', async () => {
  const directory = await createDirectory()
  for (const env of [{ SLIPWAY_SESSION_API_KEY: 'a-configured-key' }, { SLIPWAY_NO_KEY: '1' }]) {
    const server = await startAgentServer(join(directory, 'data'), { SLIPWAY_NO_KEY: '', ...env })
    const status = await attack(server.url, join(directory, 'file'), {})
    await server.stop()
    expect(status).toBe('SLIPWAY_NO_KEY' in env ? 200 : 401)
    expect(existsSync(join(directory, 'data/session.key'))).toBe(false)
  }
  const open = ['serve', '--no-key', '--host', '0.0.0.0', '--port', '0', '--data', 'data']
  const refused = await runCli(directory, open)
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('without a session key')])
})

test('a short configured key is accepted with a warning that does not show it', async () => {
  const env = { SLIPWAY_SESSION_API_KEY: 'short-canary', SLIPWAY_LOG_LEVEL: 'warn' }
  const server = await startAgentServer(join(await createDirectory(), 'data'), env)
  try {
    await expect.poll(() => server.output(), { timeout: 20_000 }).toContain('fewer than 16 characters')
    expect(server.output()).not.toContain('short-canary')
  } finally {
    await server.stop()
  }
})

test('commands find the key in the data directory, and say where it is when they do not', async () => {
  const directory = await createDirectory()
  const elsewhere = await createDirectory()
  await using server = await startKeyed(directory)
  const list = ['conversations', '--json', '--url', server.url]
  const found = { code: 0, stderr: '' }
  expect(await runCli(directory, list)).toMatchObject(found)
  expect(
    await runCli(directory, [...list.slice(0, 3), server.url.replace('127.0.0.1', 'localhost')]),
  ).toMatchObject(found)
  expect(await runCli(elsewhere, [...list, '--data', server.data])).toMatchObject(found)
  expect(await runCli(elsewhere, list, { SLIPWAY_DATA_DIRECTORY: server.data })).toMatchObject(found)
  const missing = await runCli(elsewhere, list)
  expect([missing.code, missing.stderr]).toEqual([1, expect.stringMatching(/session\.key[\s\S]*--data/)])
  // A configured key goes before the file, also a wrong one.
  const wrong = await runCli(directory, list, { SLIPWAY_SESSION_API_KEY: 'wrong' })
  expect([wrong.code, wrong.stderr]).toEqual([1, expect.stringContaining('SLIPWAY_SESSION_API_KEY')])
  await chmod(server.keyPath, 0o644)
  expect((await runCli(directory, list)).code).toBe(1)
})

/** Path and mode of everything below a directory. */
async function listModes(root: string): Promise<string[]> {
  const entries = await readdir(root, { recursive: true, withFileTypes: true })
  return await Promise.all(
    entries
      .filter((entry) => entry.isFile() || entry.isDirectory())
      .map(async (entry) => {
        const path = join(entry.parentPath, entry.name)
        return `${((await stat(path)).mode & 0o777).toString(8)} ${relative(root, path)}`
      }),
  )
}

test.skipIf(process.getuid?.() !== 0 || !existsSync('/proc/net/tcp'))(
  'the key of the data directory is not sent to a port on which another user listens',
  async () => {
    const directory = await createDirectory()
    let port = ''
    {
      await using server = await startKeyed(directory)
      port = new URL(server.url).port
    }
    // The server has ended, and a program of another user takes its port.
    const thief = `
      require('node:http').createServer((request, response) => {
        console.log(JSON.stringify(request.headers))
        response.end('{}')
      }).listen(${port}, '127.0.0.1', () => console.log('listening'))`
    const child = spawn(process.execPath, ['-e', thief], {
      uid: 65_534,
      gid: 65_534,
      cwd: '/',
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let seen = ''
    child.stdout.on('data', (chunk: Buffer) => {
      seen += chunk.toString()
    })
    try {
      await expect.poll(() => seen, { timeout: 60_000 }).toContain('listening')
      for (const host of ['127.0.0.1', 'localhost']) {
        const told = await runCli(directory, ['conversations', '--url', `http://${host}:${port}`])
        expect([told.code, told.stderr]).toEqual([1, expect.stringContaining('The user 65534 listens')])
      }
      // It was asked which kind of server it is, without a key.
      expect(seen).toContain('"host":"localhost')
      expect(seen).not.toMatch(/authorization|api-key/i)
      // The key that the user names is sent where the user says.
      const named = {
        SLIPWAY_SESSION_API_KEY: 'a key for that server',
        SLIPWAY_URL: `http://127.0.0.1:${port}`,
      }
      await runCli(directory, ['conversations'], named)
      expect(seen).toContain('a key for that server')
    } finally {
      child.kill('SIGKILL')
    }
  },
)

test('everything in the data directory is for the user of the server alone', async () => {
  const directory = await createDirectory()
  await using server = await startKeyed(directory)
  const api = new AgentServerApi({ url: server.url, headers: { 'x-session-api-key': server.key } })
  const driver = new AgentDriver({ api, directory: join(directory, 'work') })
  const file = join(directory, 'work/a.txt')
  const edit = (more: object) => toolCallsStep(toolCall('file_editor', { path: file, ...more }))
  const script = [
    bashStep('seq 1 200000'),
    bashStep(`cat '${server.keyPath}'`),
    edit({ command: 'create', file_text: 'one' }),
    edit({ command: 'str_replace', old_str: 'one', new_str: 'two' }),
    toolCallsStep(toolCall('task_tracker', { command: 'plan', task_list: [{ title: 'A', status: 'done' }] })),
    finishStep(),
  ]
  const tools = ['terminal', 'file_editor', 'task_tracker'].map((name) => ({ name }))
  const { id } = await driver.create(
    { llm: scriptedModel(script), tools },
    { initial_message: { content: [{ type: 'text', text: 'Go' }] } },
  )
  const events = await driver.waitUntilIdle(id)
  // The key is redacted in the output of a tool.
  expect(JSON.stringify(events)).toContain('session.key')
  expect(JSON.stringify(events)).not.toContain(server.key)
  expect(await attack(server.url, join(directory, 'file'), { 'x-session-api-key': server.key })).toBe(200)
  expect((await api.sendJson('PUT', '/api/settings/secrets', { name: 'A', value: 'x' })).status).toBeLessThan(
    300,
  )
  expect(await readFile(file, 'utf8')).toBe('two')
  // Files of a workspace are as the user's umask says.
  expect((await stat(file)).mode & 0o777).toBe(0o666 & ~process.umask())
  const modes = await listModes(server.data)
  for (const name of ['log.db', 'lock.db', 'session.key', '/outputs/', '/history/', '/TASKS.json'])
    expect([name, modes.filter((line) => line.includes(name)).length > 0]).toEqual([name, true])
  expect(modes.length).toBeGreaterThan(5)
  expect((await stat(server.data)).mode & 0o777).toBe(0o700)
  expect(modes.filter((line) => !/^[4-7]00 /.test(line))).toEqual([])
})
