import { once } from 'node:events'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Ajv } from 'ajv'
import { afterAll, beforeAll, beforeEach, expect, test, vi } from 'vitest'
import { runCommand, spawnCommand } from '../testing/command-process.ts'

vi.setConfig({ testTimeout: 90_000, hookTimeout: 90_000 })

const key = 'canary-session-key-of-this-test'

let directory: string
let path: string

const commandOptions = (env: Readonly<Record<string, string>> = {}) => ({
  cwd: directory,
  env: { HOME: directory, ...env },
})
const runCli = (args: readonly string[], input = '', env: Readonly<Record<string, string>> = {}) =>
  runCommand(args, { ...commandOptions(env), input })

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-config-test-'))
  path = join(directory, '.config', 'slipway', 'config.toml')
})
beforeEach(async () => await rm(path, { force: true }))
afterAll(async () => await rm(directory, { recursive: true, force: true }))

test('settings are set, read, listed and removed; flag, environment and file count in this order', async () => {
  expect((await runCli(['config', 'path'])).stdout).toBe(`${path}\n`)
  expect((await runCli(['config', 'get', 'agent_server.log_level'])).stdout).toBe('info\n')
  const set = await runCli(['config', 'set', 'agent_server.log_level', 'debug'])
  expect(set).toEqual({ stdout: `agent_server.log_level = debug in ${path}\n`, stderr: '', code: 0 })
  expect((await stat(path)).mode & 0o777).toBe(0o600)
  await runCli(['config', 'set', 'agent_server.allowed_hosts', 'a.example, b.example'])
  expect(await readFile(path, 'utf8')).toMatch(/^# .*\n/)
  const read = await runCli(['config', 'get', 'agent_server.log_level', '--json'], '', {
    SLIPWAY_LOG_LEVEL: 'warn',
  })
  expect(JSON.parse(read.stdout)).toEqual({
    ...{ key: 'agent_server.log_level', value: 'warn', source: 'SLIPWAY_LOG_LEVEL' },
  })
  const listed = (await runCli(['config', '--json'])).stdout.trimEnd().split('\n')
  expect(listed.map((line) => JSON.parse(line))).toEqual([
    { key: 'agent_server.allowed_hosts', value: ['a.example', 'b.example'], source: path },
    { key: 'agent_server.log_level', value: 'debug', source: path },
  ])
  expect((await runCli(['config', 'list'])).stdout).toMatch(
    /^agent_server\.allowed_hosts +\S+ +a\.example,b/m,
  )
  expect(await runCli(['config', 'unset', 'agent_server.log_level'])).toMatchObject({ stdout: 'removed\n' })
  expect(await readFile(path, 'utf8')).not.toContain('log_level')
  expect(await runCli(['config', 'get', 'model.name'])).toEqual({ stdout: '', stderr: '', code: 1 })
})

test('what a server would refuse is not written', async () => {
  const before = '# mine\n[agent_server]\nlog_level = "warn"\n'
  await runCli(['config', 'set', 'agent_server.queue_runs', 'true'])
  await writeFile(path, before)
  for (const [name, value, expected] of [
    ['agent_server.log_levle', 'info', 'Is it agent_server.log_level?'],
    ['agent_server.log_level', 'loud', 'Should be one of: debug, info, warn, error'],
    ['agent_server.max_concurrent_runs', '0', 'whole number from 1'],
    ['agent_server.command_rules', '[{"pattern":"x","decision":"canary"}]', 'agent_server.command_rules: '],
    ['agent_server.worktree_root', 'relative', 'agent_server.worktree_root: Should be an absolute path'],
    ['sandbox_server.daily_conversation_limit', 'many', 'sandbox_server.daily_conversation_limit: '],
    ['model.base_url', 'http://127.0.0.1:1', 'need model.name'],
  ] as const) {
    const { code, stderr } = await runCli(['config', 'set', name, value])
    expect(stderr, name).toContain(expected)
    expect(code).toBe(1)
  }
  expect(await readFile(path, 'utf8')).toBe(before)
})

test('a secret comes from standard input, is shown nowhere, and its file must be private', async () => {
  const name = 'agent_server.session_api_key'
  const refused = await runCli(['config', 'set', name, key])
  expect(refused).toMatchObject({ code: 1, stdout: '', stderr: expect.stringContaining('- < FILE') })
  const set = await runCli(['config', 'set', name, '-'], `${key}\n`)
  expect(set).toMatchObject({ code: 0, stdout: expect.stringMatching(/ = \*+ in .*config\.toml\n$/) })
  expect(set.stdout + set.stderr).not.toContain(key)
  expect(await readFile(path, 'utf8')).toContain(key)
  const outputs = await Promise.all([
    runCli(['config', 'get', name]),
    runCli(['config', 'list', '--json']),
    runCli(['config', 'list']),
    runCli(['config', 'get', name, '--json'], '', { SLIPWAY_SESSION_API_KEY: key }),
  ])
  for (const { stdout, stderr } of outputs) {
    expect(stdout).toContain('**********')
    expect(stdout + stderr).not.toContain(key)
  }
  await writeFile(path, `[agent_server]\nsession_api_key = ${key}\n`)
  const broken = await runCli(['ls'])
  expect(broken).toMatchObject({ code: 1, stderr: expect.stringContaining('line 2') })
  expect(broken.stderr).not.toContain(key)
  expect(await runCli(['--no-config', 'config', 'list'])).toMatchObject({ code: 0, stdout: '' })
})

test('an edited copy replaces the file when it is valid, and is kept otherwise', async () => {
  const copy = path.replace('.toml', '.edit.toml')
  const editor = (program: string) => ({ EDITOR: `sh -c '${program}' sh`, VISUAL: '' })
  const bad = await runCli(['config', 'edit'], '', editor('echo "[model]\nnaem = 1" > "$1"'))
  expect(bad).toMatchObject({ code: 1, stderr: expect.stringContaining('Is it model.name?') })
  expect(bad.stderr).toContain(copy)
  expect((await stat(copy)).mode & 0o777).toBe(0o600)
  const good = await runCli(
    ['config', 'edit', '--json'],
    '',
    editor('sed -i "s/naem = 1/name = \\"a\\/b\\"/" "$1"'),
  )
  expect(good.stderr).toBe('')
  expect(JSON.parse(good.stdout)).toEqual({ path, changed: true })
  expect((await runCli(['config', 'get', 'model.name'])).stdout).toBe('a/b\n')
  await expect(stat(copy)).rejects.toThrow()
  const failed = await runCli(['config', 'edit'], '', editor('exit 3'))
  expect(failed).toMatchObject({ code: 1, stderr: expect.stringContaining('failed') })
})

test('a server takes the settings of the file, and commands of this machine its key', async () => {
  await runCli(['config', 'set', 'agent_server.session_api_key', '-'], key)
  await runCli(['config', 'set', 'agent_server.max_concurrent_runs', '7'])
  await runCli(['config', 'set', 'agent_server.log_level', 'error'])
  const server = spawnCommand(
    ['serve', '--port', '0', '--data', 'data', '--json', '--no-console'],
    commandOptions(),
  )
  try {
    server.stderr.resume()
    const [line] = await once(createInterface({ input: server.stdout }), 'line')
    const { url } = JSON.parse(line)
    expect((await fetch(`${url}/api/conversations/count`)).status).toBe(401)
    expect(await runCli(['ls', '--url', url])).toMatchObject({ code: 0 })
    const without = await runCli(['--no-config', 'ls', '--url', url])
    expect(without).toMatchObject({ code: 1, stderr: expect.stringContaining('No key was sent') })
    const wrong = await runCli(['ls', '--url', url], '', {
      SLIPWAY_SESSION_API_KEY: 'another-key-of-the-environment',
    })
    expect(wrong).toMatchObject({ code: 1, stderr: expect.stringContaining('SLIPWAY_SESSION_API_KEY') })
  } finally {
    server.kill('SIGTERM')
    if (server.exitCode === null) await once(server, 'close')
  }
})

test('the private server takes settings of the file, and neither its keys nor its database', async () => {
  await runCli(['config', 'set', 'agent_server.max_concurrent_runs', '7'])
  const text = `${await readFile(path, 'utf8')}session_api_key = "${key}"
secret_key = "a-secret-key-of-this-test"
database_url = "postgres://127.0.0.1:1/none"
shared_database = true
`
  await writeFile(path, text, { mode: 0o600 })
  try {
    // It has started and has answered with its own key; there is no model.
    const printed = await runCli(['--print', 'hello'])
    expect(printed).toMatchObject({ code: 1, stderr: expect.stringContaining('There is no model yet') })
  } finally {
    await runCli(['stop', '--no-config'])
  }
})

test('doctor reports a broken file, and completion knows the settings', async () => {
  await runCli(['config', 'set', 'agent_server.queue_runs', 'true'])
  await writeFile(path, '[agent_server]\nqueue_run = true\n')
  const examined = await runCli(['doctor', '--json', '--data', join(directory, 'none')])
  const { findings } = JSON.parse(examined.stdout)
  expect(findings).toContainEqual({
    ...{ area: 'settings', level: 'error', next: 'slipway config edit' },
    message: expect.stringContaining('Is it agent_server.queue_runs?'),
  })
  expect(await runCli(['ls'])).toMatchObject({ code: 1, stderr: expect.stringContaining('queue_runs?') })
  const { stdout } = await runCli(['__complete', 'config', 'get', 'agent_server.queue'])
  expect(stdout).toMatch(/^agent_server\.queue_runs\t/)
})

test('an address with a password is not shown', async () => {
  await runCli(['config', 'set', 'model.name', 'a/b'])
  await runCli(['config', 'set', 'model.base_url', '-'], 'https://user:canary-password@model.example/v1')
  const { stdout } = await runCli(['config', 'list'])
  expect(stdout).toContain('model.base_url')
  expect(stdout).not.toContain('canary-password')
})

test('the schema of the file is a JSON Schema that says what the command says', async () => {
  const { stdout } = await runCli(['config', 'schema'])
  const validate = new Ajv({ strict: false }).compile(JSON.parse(stdout))
  expect(
    validate({ model: { name: 'a/b' }, agent_server: { max_concurrent_runs: 3, allowed_hosts: ['a'] } }),
  ).toBe(true)
  expect(validate({ agent_server: { log_levle: 'info' } })).toBe(false)
  expect(validate({ agent_server: { log_level: 'loud' } })).toBe(false)
})
