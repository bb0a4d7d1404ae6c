import { mkdir, mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runCommand } from '../testing/command-process.ts'

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
  const listed = await runCli(['ls'])
  expect(listed.stdout).toMatch(/^[0-9a-f]{8} +finished/m)
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
