import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { Client } from '@slipway/client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { findSessionKey } from '../context/session-key.ts'
import { runCommand, spawnCommand } from '../testing/command-process.ts'

vi.setConfig({ testTimeout: 180_000, hookTimeout: 60_000 })

const canary = 'canary-of-a-stored-secret'

let home: string

const runCli = (args: readonly string[], input = '', env: Readonly<Record<string, string>> = {}) =>
  runCommand(args, { cwd: join(home, 'project'), env: { HOME: home, SLIPWAY_URL: '', ...env }, input })

beforeEach(async () => {
  home = await mkdtemp(join(tmpdir(), 'slipway-first-run-test-'))
  await mkdir(join(home, 'project'))
})

afterEach(async () => {
  await runCli(['stop'])
  await rm(home, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
})

test('the first run needs no server: it starts the private one, and leaves nothing in the project', async () => {
  const { code, stdout, stderr } = await runCli(['run', 'hello'], '', { LLM_MODEL: 'scripted/demo' })
  expect(code, stdout + stderr).toBe(0)
  expect(stdout).toContain('hello')
  expect(await readdir(join(home, 'project'))).toEqual([])
  expect((await stat(join(home, '.local/share/slipway'))).mode & 0o777).toBe(0o700)
  const listed = await runCli(['ls'])
  expect(listed.stdout).toMatch(/^[0-9a-f]{8} +finished/m)
})

test('where a directory has no data, du and backup are about the private server, and say so', async () => {
  expect((await runCli(['du'])).code).toBe(1)
  await runCli(['run', 'hello'], '', { LLM_MODEL: 'scripted/demo' })
  const note = `Data directory of your private server: ${join(home, '.local/share/slipway')}\n`
  expect(await runCli(['du'])).toMatchObject({ code: 0, stderr: note })
  const backup = await runCli(['backup', '../backup'])
  expect(backup).toMatchObject({ code: 0, stdout: expect.stringContaining('1 conversation,') })
  expect(backup.stderr).toContain(note)
  const missing = await runCli(['du', '--data', '.slipway'])
  expect(missing).toMatchObject({ code: 1, stderr: expect.not.stringContaining('private server') })
})

test('doctor names what a repository brings, and what of it cannot be read', async () => {
  await mkdir(join(home, 'project/.openhands'))
  const hooks = { stop: [{ hooks: [{ command: 'sh ./check.sh' }] }] }
  await writeFile(join(home, 'project/.openhands/hooks.json'), JSON.stringify(hooks))
  await writeFile(join(home, 'project/check.sh'), 'exit 0\n')
  await writeFile(join(home, 'project/.openhands/command_rules.json'), '{')
  const { stdout } = await runCli(['doctor', '--json'])
  const findings = (JSON.parse(stdout).findings as { area: string }[]).filter(
    ({ area }) => area === 'repository',
  )
  expect(findings).toMatchObject([
    { level: 'ok', message: 'runs with your consent alone: .openhands/hooks.json, check.sh' },
    { level: 'warning', message: expect.stringContaining('command_rules.json: is not JSON') },
  ])
})

test('without a model nothing is sent, and the message says how to name one', async () => {
  const { code, stderr } = await runCli(['run', 'hello'])
  expect(code).toBe(1)
  expect(stderr).toContain('There is no model. Name one with --model anthropic/NAME or LLM_MODEL')
})

test('a stored secret is used by its name and shown by no command', async () => {
  const none = await runCli(['secrets'])
  expect(none).toMatchObject({ code: 0, stderr: expect.stringContaining('slipway secrets set NAME') })
  const shown = await runCli(['secrets', 'set', 'SERVICE_TOKEN', canary])
  expect(shown).toMatchObject({ code: 1, stderr: expect.stringContaining('SERVICE_TOKEN - < FILE') })
  expect(shown.stderr).not.toContain(canary)
  const empty = await runCli(['secrets', 'set', 'SERVICE_TOKEN', '-'])
  expect(empty).toMatchObject({ code: 1, stderr: expect.stringContaining('Nothing was stored') })
  const set = await runCli(
    ['secrets', 'set', 'SERVICE_TOKEN', '-', '--description', 'of a test'],
    `${canary}\n`,
  )
  expect(set).toMatchObject({ code: 0, stdout: 'stored\n' })
  const listed = await runCli(['secrets', '--json'])
  expect(JSON.parse(listed.stdout)).toEqual({ name: 'SERVICE_TOKEN', description: 'of a test' })
  const unknown = await runCli(['run', 'go', '--secret', 'OTHER'], '', { LLM_MODEL: 'scripted/demo' })
  expect(unknown).toMatchObject({ code: 1, stderr: expect.stringContaining('slipway secrets set OTHER') })
  expect((await runCli(['secrets', 'rm', 'OTHER'])).stderr).toContain('There are: SERVICE_TOKEN')
  expect(await runCli(['secrets', 'rm', 'SERVICE_TOKEN'])).toMatchObject({ code: 0, stdout: 'removed\n' })
  expect((await runCli(['secrets', '--json'])).stdout).toBe('')
})

test('doctor looks at the private server and at the model that a session has saved', async () => {
  const doctor = async (env: Readonly<Record<string, string>> = {}) => {
    const { stdout } = await runCli(['doctor', '--json'], '', env)
    const { findings } = JSON.parse(stdout) as {
      findings: { area: string; message: string; next?: string }[]
    }
    return (area: string) => findings.filter((finding) => finding.area === area)
  }
  const first = await doctor()
  expect(first('data')).toMatchObject([
    { level: 'ok', message: expect.stringContaining('there is none yet') },
  ])
  expect(first('model')).toMatchObject([
    { level: 'warning', next: expect.stringContaining('slipway config set model.name') },
  ])
  const keys: unknown[] = []
  const model = createServer(({ headers }, response) => {
    keys.push(headers.authorization)
    response.writeHead(headers.authorization === `Bearer ${canary}` ? 200 : 401).end('{}')
  })
  await new Promise<void>((resolve) => model.listen(0, '127.0.0.1', resolve))
  const base_url = `http://127.0.0.1:${(model.address() as AddressInfo).port}/v1`
  // A session keeps the server while its profile is saved, as the wizard saves it.
  expect(await runCli(['secrets', '--json'])).toMatchObject({ code: 0 })
  const data = join(home, '.local', 'share', 'slipway')
  const child = spawnCommand(
    ['serve', '--data', data, '--port', '0', '--json', '--no-console', '--no-config'],
    {
      cwd: home,
      env: { HOME: home, SLIPWAY_LOG_LEVEL: 'error' },
    },
  )
  child.stderr.resume()
  const [line] = await once(createInterface({ input: child.stdout }), 'line')
  const { url } = JSON.parse(line)
  const client = new Client({ url, sessionApiKey: await findSessionKey(url, data) })
  const llm = { model: 'openai-compatible/far', usage_id: 'agent', base_url, api_key: canary }
  await client.call('saveProfile', { params: { name: 'session' }, body: { llm, include_secrets: true } })
  await writeFile(join(data, 'server.json'), JSON.stringify({ url, pid: child.pid }))
  const running = await doctor()
  expect(running('data')[0]).toMatchObject({ level: 'ok', message: data })
  const answers = { level: 'ok', message: 'openai-compatible/far, saved by a session: its server answers' }
  expect(running('model')).toMatchObject([answers])
  expect(keys).toEqual([`Bearer ${canary}`])
  child.kill('SIGTERM')
  await once(child, 'close')
  // Its key is sealed then.
  expect((await doctor())('model')).toMatchObject([answers])
  expect(keys).toEqual([`Bearer ${canary}`, undefined])
  model.close()
  model.closeAllConnections()
  expect((await doctor())('model')).toMatchObject([
    { level: 'error', next: expect.stringContaining('/model') },
  ])
  const named = await doctor({ LLM_MODEL: 'scripted/demo' })
  expect(named('model')).toMatchObject([{ message: 'scripted/demo (its provider was not asked)' }])
})
