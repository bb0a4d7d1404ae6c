import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, readFile, rm, stat, symlink, truncate, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { userDataDirectory } from '@slipway/shared/process'
import { commandMain } from '@slipway/shared/process/testing'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { noConfigFile } from '../context/config-file.ts'
import { askServer, findHolder, findPrivateServer } from '../context/private-server.ts'
import { isAlive } from '../context/server-process.ts'
import { privateServerEnvironment } from '../context/shell-variables.ts'
import { examinePrivateServer } from '../doctor/private-server.ts'
import { joinPrivateServer, startPrivateServer, stopPrivateServer } from './start-private-server.ts'

vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 })

type Env = Readonly<Record<string, string | undefined>>

let home: string
let data: string

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'slipway-shells-test-'))
  data = join(home, '.local/share/slipway')
})
afterEach(async () => {
  await stopPrivateServer(shell())
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 })
})

const { PATH, NODE_COMPILE_CACHE } = process.env
/** The environment of a shell of this user; a start without compiled code takes twice the CPU time. */
const shell = (env: Env = {}): Env => ({ PATH, NODE_COMPILE_CACHE, HOME: home, ...env })

/** What a session does at its start, in this process: the server alone is another one. */
async function start(env: Env) {
  const config = { env, file: noConfigFile('') }
  const serverEnv = privateServerEnvironment(config)
  const server = await startPrivateServer(env, serverEnv, AbortSignal.timeout(30_000), commandMain)
  await joinPrivateServer(env, server)
  return server
}

/** The command itself, with exactly this environment. */
async function run(args: readonly string[], env: Env, options: { cwd?: string; before?: string } = {}) {
  const { cwd = home, before = ':' } = options
  const child = spawn(
    '/bin/sh',
    ['-c', `${before}; exec "$@"`, 'sh', process.execPath, commandMain, ...args],
    {
      env: Object.fromEntries(Object.entries(env).filter(([, value]) => value !== undefined)),
      cwd,
      stdio: ['ignore', 'pipe', 'pipe'],
    },
  )
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ])
  return { stdout, stderr, code }
}

/** Nothing of the server is left, and every start of it was a good one. */
async function expectNothing(env: Env, pid: number) {
  expect(await stopPrivateServer(env)).toBe(true)
  expect(isAlive(pid)).toBe(false)
  expect(await findHolder(env)).toBeUndefined()
  expect(await stopPrivateServer(env)).toBe(false)
  expect(await readFile(join(userDataDirectory(env), 'server.log'), 'utf8')).not.toContain('slipway:')
}

const deadUrl = 'http://127.0.0.1:9'
const variables: readonly (readonly [string, Env])[] = [
  ['PORT', { PORT: '9' }],
  ['HOST', { HOST: '0.0.0.0' }],
  ['an unknown setting', { SLIPWAY_DIR: '/nowhere' }],
  ['the port of a Service', { SLIPWAY_PORT: 'tcp://10.0.0.1:80' }],
  ['a session key', { SLIPWAY_SESSION_API_KEY: 'a-key-of-one-shell' }],
  ['the session key of another server', { SESSION_API_KEY: 'a-key-of-one-shell' }],
  ['numbered session keys', { OH_SESSION_API_KEYS_0: 'a-key-of-one-shell' }],
  ['a secret key', { SLIPWAY_SECRET_KEY: 'a-secret-of-one-shell' }],
  ['the secret key of another server', { OH_SECRET_KEY: 'a-secret-of-one-shell' }],
  ['a value that is refused', { SLIPWAY_LOG_LEVEL: 'loud' }],
  ['settings that are empty', { SLIPWAY_WEB: '', SLIPWAY_DATA: '', SLIPWAY_SESSION_API_KEY: '' }],
  ['another data directory', { SLIPWAY_DATA_DIRECTORY: '/nowhere' }],
  ['a database that is away', { SLIPWAY_DATABASE_URL: 'postgres://127.0.0.1:9/x' }],
  ['deferred settings', { SLIPWAY_DEFERRED_INIT: '1' }],
  ['proxies that are away', { HTTP_PROXY: deadUrl, HTTPS_PROXY: deadUrl, ALL_PROXY: deadUrl }],
  ['proxies in lower case', { http_proxy: deadUrl, https_proxy: deadUrl }],
  ['proxies for no exception', { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: deadUrl, NO_PROXY: '' }],
  ['a receiver of traces that is away', { OTEL_EXPORTER_OTLP_ENDPOINT: deadUrl }],
  ['flags of Node that it refuses', { NODE_OPTIONS: '--no-such-flag' }],
  ['a heap that is too small', { NODE_OPTIONS: '--max-old-space-size=8' }],
  ['NODE_ENV', { NODE_ENV: 'production' }],
  ['a certificate that is missing', { NODE_EXTRA_CA_CERTS: '/nowhere.pem', SSL_CERT_FILE: '/nowhere.pem' }],
  ['a temporary directory that is missing', { TMPDIR: '/dev/null/tmp' }],
  ['a temporary directory that cannot be written', { TMPDIR: '/dev/null' }],
  ['a relative XDG_CONFIG_HOME', { XDG_CONFIG_HOME: 'config' }],
  ['a relative XDG_DATA_HOME', { XDG_DATA_HOME: 'data' }],
  ['odd directories for caches and sockets', { XDG_CACHE_HOME: '/dev/null', XDG_RUNTIME_DIR: 'nowhere' }],
  ['keys of models', { OPENAI_API_KEY: 'sk-a', ANTHROPIC_API_KEY: 'sk-b', LLM_API_KEY: 'sk-c' }],
  ['a language', { LANG: 'C', LC_ALL: 'tr_TR.UTF-8' }],
  ['a time zone that does not exist', { TZ: 'Mars/Phobos' }],
]

/** At night each shell has one of these, otherwise a seventh of the rows, which set no variable twice. */
const shells =
  process.env.SLIPWAY_NIGHTLY === '1'
    ? variables
    : Array.from({ length: 7 }, (_, first) => {
        const rows = variables.filter((_, at) => at % 7 === first)
        const env: Env = Object.assign({}, ...rows.map(([, own]) => own))
        return [rows.map(([name]) => name).join(', '), env] as const
      })

test.each(shells)(
  '%s in one shell: the server starts once, and another shell uses and stops it',
  async (_, env) => {
    const server = await start(shell(env))
    expect(await askServer(server)).toBe('yes')
    const other = await findPrivateServer(shell())
    expect(other?.pid).toBe(server.pid)
    expect(await start(shell())).toEqual(server)
    await expectNothing(shell(), server.pid)
  },
)

test('a session key of one shell is that of neither its server nor the next shell', async () => {
  const keyed = shell({ SESSION_API_KEY: 'a-key-of-one-shell' })
  expect(await run(['secrets'], keyed)).toMatchObject({ code: 0 })
  const server = await start(keyed)
  expect(await run(['secrets'], shell())).toMatchObject({ code: 0 })
  expect(await run(['stop'], shell())).toMatchObject({ code: 0, stdout: 'stopped\n' })
  expect(isAlive(server.pid)).toBe(false)
})

test('proxies, certificates, agents and directories are taken from the shell, and doctor shows them', async () => {
  const env = shell({
    HTTPS_PROXY: 'http://user:hidden-password@127.0.0.1:9',
    no_proxy: 'localhost',
    SSH_AUTH_SOCK: '/run/agent',
    LANG: 'C',
    SECRET_OF_THE_SHELL: 'x',
  })
  const server = await start(env)
  expect(server.environment).toMatchObject({ no_proxy: 'localhost', SSH_AUTH_SOCK: '/run/agent', LANG: 'C' })
  expect(Object.keys(server.environment ?? {})).not.toContain('SECRET_OF_THE_SHELL')
  const findings = await examinePrivateServer(shell())
  expect(findings.map(({ level }) => level)).toEqual(['ok', 'ok', 'warning'])
  const said = JSON.stringify(findings)
  expect(said).toContain('HTTPS_PROXY=http://***@127.0.0.1:9')
  expect(said).toContain('HTTPS_PROXY, SSH_AUTH_SOCK, no_proxy')
  expect(said).not.toContain('hidden-password')
  expect((await examinePrivateServer(env)).map(({ level }) => level)).toEqual(['ok', 'ok'])
})

test.each(['000', '077'])('umask %s: the command starts it, and its files are private', async (umask) => {
  const ran = await run(['secrets'], shell(), { before: `umask ${umask}` })
  expect(ran).toMatchObject({ code: 0 })
  expect((await stat(data)).mode & 0o777).toBe(0o700)
  for (const name of ['session.key', 'server.json', 'server.log'])
    expect((await stat(join(data, name))).mode & 0o777).toBe(0o600)
  expect(await findHolder(shell())).toBeUndefined()
})

test.each([
  ['a proxy for every address', { NODE_USE_ENV_PROXY: '1', HTTP_PROXY: deadUrl, NO_PROXY: '' }],
  ['a smaller heap', { NODE_OPTIONS: '--max-old-space-size=300' }],
  ['no home directory, and directories of their own', { HOME: undefined }],
])('%s: the command starts it and ends it', async (_, env) => {
  const own = { XDG_DATA_HOME: join(home, '.local/share'), XDG_CONFIG_HOME: join(home, '.config') }
  const ran = await run(['secrets'], shell({ ...own, ...env }))
  expect(ran).toMatchObject({ code: 0 })
  expect(await findHolder(shell())).toBeUndefined()
})

test.each([
  ['a directory that is gone', async (path: string) => await rm(path, { recursive: true })],
  ['a directory that cannot be read', async (path: string) => await chmod(path, 0)],
])('%s: the server is found and stopped from there', async (_, spoil) => {
  const server = await start(shell())
  const cwd = join(home, 'project')
  await mkdir(cwd)
  // The shell is there before the directory goes.
  const gate = join(home, 'gate')
  const ran = run(['stop'], shell(), { cwd, before: `while [ ! -e ${gate} ]; do sleep 0.02; done` })
  await spoil(cwd)
  await writeFile(gate, '')
  expect(await ran).toMatchObject({ code: 0, stdout: 'stopped\n' })
  expect(isAlive(server.pid)).toBe(false)
})

test.each([
  ['a home directory that cannot be written', () => shell({ HOME: '/dev/null' })],
  ['a data directory that cannot be written', () => shell({ XDG_DATA_HOME: '/dev/null' })],
])('%s is named, and nothing is started', async (_, env) => {
  await expect(start(env())).rejects.toThrow(/^ENOTDIR: .*'\/dev\/null/)
  expect(await findHolder(env())).toBeUndefined()
})

test('a server that is gone, named by a variable or by a context, is named, and no other one is started', async () => {
  await mkdir(join(home, '.config/slipway'), { recursive: true })
  const contexts = { current: 'gone', contexts: { gone: { url: deadUrl, kind: 'agent' } } }
  await writeFile(join(home, '.config/slipway/contexts.json'), JSON.stringify(contexts), { mode: 0o600 })
  for (const env of [shell(), shell({ SLIPWAY_URL: deadUrl })]) {
    const ran = await run(['secrets'], env)
    expect(ran).toMatchObject({ code: 1, stderr: expect.stringContaining(deadUrl) })
  }
  expect(await findHolder(shell())).toBeUndefined()
  expect(await run(['stop'], shell())).toMatchObject({ code: 0, stdout: expect.stringContaining('not run') })
})

const note = () => join(data, 'server.json')
const writeNote = async (value: object | string) => {
  await mkdir(data, { recursive: true, mode: 0o700 })
  await writeFile(note(), typeof value === 'string' ? value : JSON.stringify(value), { mode: 0o600 })
}

test.each([
  ['of a dead process', () => writeNote({ url: 'http://127.0.0.1:65533', pid: 4_194_305, started: '1' })],
  ['that is cut in the middle', () => writeNote('{"url":"http://127.0.0.1:9","pi')],
  ['that names no address', () => writeNote({ url: 'nowhere', pid: process.pid })],
  [
    'that is a link',
    async () => {
      await mkdir(data, { recursive: true })
      await symlink('/dev/zero', note())
    },
  ],
])('a server.json %s is replaced', async (_, prepare) => {
  await prepare()
  const server = await start(shell())
  expect((await findPrivateServer(shell()))?.pid).toBe(server.pid)
  await expectNothing(shell(), server.pid)
})

test.each([
  ['without a time', async () => ({})],
  ['with the time of another process', async () => ({ started: '1' })],
])('a process that merely has the pid of server.json (%s) is neither used nor killed', async (_, more) => {
  const other = spawn('sleep', ['600'], { stdio: 'ignore' })
  try {
    await writeNote({ url: 'http://127.0.0.1:65533', pid: other.pid, ...(await more()) })
    expect(await findHolder(shell())).toBeUndefined()
    expect(await run(['stop'], shell())).toMatchObject({ stdout: expect.stringContaining('does not run') })
    expect(isAlive(other.pid ?? 0)).toBe(true)
    const server = await start(shell())
    await expectNothing(shell(), server.pid)
    expect(isAlive(other.pid ?? 0)).toBe(true)
  } finally {
    other.kill()
  }
})

test('a server that was killed is followed by another one at its port', async () => {
  const first = await start(shell())
  process.kill(first.pid, 'SIGKILL')
  await vi.waitUntil(() => !isAlive(first.pid))
  const second = await start(shell())
  expect(second).toMatchObject({ url: first.url, pid: expect.not.toSatisfy((pid) => pid === first.pid) })
})

test('where another program has its port, the next server has another one', async () => {
  const first = await start(shell())
  await stopPrivateServer(shell())
  const other = createServer()
  await new Promise<void>((resolve) => other.listen(Number(new URL(first.url).port), '127.0.0.1', resolve))
  const second = await start(shell())
  expect(second.url).not.toBe(first.url)
  expect(await askServer(second)).toBe('yes')
  other.close()
})

test.each([
  ['is deleted', () => rm(join(data, 'session.key'))],
  ['is changed', () => writeFile(join(data, 'session.key'), `${'k'.repeat(32)}\n`)],
  ['may be read by others', () => chmod(join(data, 'session.key'), 0o644)],
])('a key file that %s while the server runs: the reason is shown, and stop ends it', async (_, spoil) => {
  const server = await start(shell())
  await spoil()
  await expect(start(shell())).rejects.toThrow(
    `The private server (pid ${server.pid}) does not accept the key in ${data}`,
  )
  expect(await examinePrivateServer(shell())).toMatchObject([
    {
      level: 'error',
      message: expect.stringContaining(`pid ${server.pid}`),
      next: expect.stringContaining('slipway stop'),
    },
  ])
  await expectNothing(shell(), server.pid)
  await start(shell())
})

test('a server of the user with another key is named, not started again, and stopped', async () => {
  await mkdir(data, { recursive: true })
  const args = [commandMain, 'serve', '--data', data, '--port', '0', '--json', '--no-console']
  const child = spawn(process.execPath, args, {
    env: { ...shell(), SLIPWAY_SESSION_API_KEY: 'a-key-of-one-shell', SLIPWAY_LOG_LEVEL: 'error' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(createInterface({ input: child.stdout }), 'line')
  const { pid = 0 } = child
  expect(await run(['secrets'], shell())).toMatchObject({
    code: 1,
    stderr: expect.stringMatching(`pid ${pid}.*another one.*slipway stop`),
  })
  await rm(note())
  // Without its note it is known by the lock.
  expect(await examinePrivateServer(shell())).toMatchObject([
    { level: 'error', message: expect.stringContaining(`pid ${pid}`) },
  ])
  const closed = once(child, 'close')
  expect(await run(['stop'], shell())).toMatchObject({ code: 0, stdout: 'stopped\n' })
  await closed
})

test('a running server whose server.json is cut or lost says again where it is', async () => {
  const server = await start(shell())
  await truncate(note(), 10)
  expect(await findHolder(shell())).toMatchObject({ pid: server.pid, isServer: true })
  expect(await start(shell())).toEqual(server)
})

test('two sessions that start at once share one server', async () => {
  const [one, two] = await Promise.all([start(shell()), start(shell())])
  expect(two).toEqual(one)
  expect(await stopPrivateServer(shell())).toBe(true)
  expect(await findHolder(shell())).toBeUndefined()
})

test('what uses the data directory and is no server is named and left alone', async () => {
  await mkdir(data, { recursive: true, mode: 0o700 })
  const program =
    "import { DirectoryLock } from '@slipway/storage'; await DirectoryLock.acquire(process.argv[1], 'lock.db'); console.log('held'); setInterval(() => {}, 1e6)"
  const child = spawn(process.execPath, ['--input-type=module', '-e', program, data], {
    cwd: join(import.meta.dirname, '../../../agent-server'),
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  try {
    await once(createInterface({ input: child.stdout }), 'line')
    await expect(start(shell())).rejects.toThrow(`in use by pid ${child.pid}`)
    await expect(stopPrivateServer(shell())).rejects.toThrow('is no server and was not stopped')
    expect(await examinePrivateServer(shell())).toMatchObject([{ level: 'warning' }])
    expect(isAlive(child.pid ?? 0)).toBe(true)
  } finally {
    child.kill('SIGKILL')
    await once(child, 'close')
  }
})

test('a server that cannot start says why, once', async () => {
  await mkdir(join(data, 'lock.db'), { recursive: true, mode: 0o700 })
  await expect(start(shell())).rejects.toThrow(/did not start: .*lock\.db: it is a directory; remove it/)
  const log = await readFile(join(data, 'server.log'), 'utf8')
  expect(log.match(/slipway:/g)).toHaveLength(1)
})

test('the port of a program that is no Slipway server is not taken for one', async () => {
  const other = createServer((_, response) => response.writeHead(404).end())
  await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
  const { port } = other.address() as AddressInfo // it listens on a port
  await writeNote({ url: `http://127.0.0.1:${port}`, pid: 4_194_305 })
  const server = await start(shell())
  expect(new URL(server.url).port).not.toBe(String(port))
  other.closeAllConnections()
  other.close()
})
