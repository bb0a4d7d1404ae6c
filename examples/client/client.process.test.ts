import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { serve } from '@slipway/agent-server'
import { afterAll, beforeAll, expect, test } from 'vitest'

const run = promisify(execFile)
const stop = new AbortController()
let directory: string
let url: string
let serving: Promise<void>

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'slipway-examples-test-'))
  const env = { SLIPWAY_SESSION_API_KEY: 'a-key-of-these-examples', SLIPWAY_LOG_LEVEL: 'error' }
  const ready = Promise.withResolvers<string>()
  const server = { host: '127.0.0.1', port: 0, data: join(directory, 'data'), signal: stop.signal }
  serving = serve({ ...server, env, ready: ready.resolve })
  url = await ready.promise
})
afterAll(async () => {
  stop.abort()
  await serving
  await rm(directory, { recursive: true, force: true })
})

/** Runs a program of this folder; returns what it prints. */
async function runExample(name: string, ...args: string[]): Promise<string> {
  const file = join(import.meta.dirname, `${name}.ts`)
  const env = { ...process.env, SLIPWAY_URL: url, SLIPWAY_SESSION_API_KEY: 'a-key-of-these-examples' }
  const { stdout } = await run(process.execPath, [file, ...args], { cwd: directory, env, timeout: 60_000 })
  return stdout
}

test('a task is run, and its answer printed', async () => {
  expect(await runExample('run-a-task')).toMatch(
    /^SystemPromptEvent\nMessageEvent\n[\s\S]*The folder is empty\.\n$/,
  )
})

test('actions are allowed or rejected by the program', async () => {
  const printed = await runExample('confirm-actions')
  expect(printed).toBe('allowed {"command":"ls"}\nrejected {"command":"rm -rf build"}\n')
})

test('messages are found in all logs, and a log is copied', async () => {
  await runExample('run-a-task')
  const found = await runExample('search-logs', 'IN THIS FOLDER')
  expect(found).toMatch(/ MessageEvent\n/)
  const response = await fetch(`${url}/api/conversations/search`, {
    headers: { 'x-session-api-key': 'a-key-of-these-examples' },
  })
  const { items } = (await response.json()) as { items: { id: string }[] }
  expect(await runExample('copy-a-log', items[0]?.id ?? '')).toMatch(/^\d+ events in [0-9a-f-]{36}\n$/)
})

test('a command is run, and a refusal has a status and words', async () => {
  expect(await runExample('run-a-command')).toMatch(/^Linux\n 3\n4\d\d /)
})
