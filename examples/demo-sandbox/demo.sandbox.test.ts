import { type ChildProcess, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { must } from '@slipway/protocol'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { findProcesses } from './find-processes.ts'

vi.setConfig({ testTimeout: 120_000, hookTimeout: 60_000 })

const mainPath = fileURLToPath(new URL('../../packages/cli/src/main.js', import.meta.url))

let directory: string
let count = 0

/** The demo with its own temporary directory. */
async function spawnDemo(env: Record<string, string> = {}) {
  const temporary = join(directory, String(++count))
  await mkdir(temporary)
  const inheritedEnv = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|OH)_/.test(name))
  const child = spawn(process.execPath, [mainPath, 'demo-sandbox', '--fast'], {
    env: { ...Object.fromEntries(inheritedEnv), TMPDIR: temporary, ...env },
    cwd: directory,
  })
  must(child.stdin, 'stdin').end()
  const end = new Promise<number | null>((resolve) => child.once('close', resolve))
  return { child, temporary, end, stderr: text(must(child.stderr, 'stderr')) }
}

/** Resolves when it has printed this. */
async function waitForOutput(child: ChildProcess, words: string): Promise<void> {
  let printed = ''
  for await (const chunk of must(child.stdout, 'stdout').iterator({ destroyOnReturn: false })) {
    printed += chunk
    if (printed.includes(words)) return
  }
  throw new Error(`It ended without saying ${words}: ${printed}`)
}

async function expectNothingLeft(temporary: string): Promise<void> {
  // Node's compile cache is not the demo's.
  const names = (await readdir(temporary)).filter((name) => name !== 'node-compile-cache')
  expect({ names, processes: (await findProcesses(temporary)) ?? [] }).toEqual({ names: [], processes: [] })
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'demo-'))
})

afterAll(() => rm(directory, { recursive: true, force: true }))

test.each([{}, { SLIPWAY_ISOLATION: 'none' }])(
  'the sandbox demo succeeds, reports the isolation, and leaves nothing behind (%j)',
  async (env) => {
    const { child, temporary, end, stderr } = await spawnDemo(env)
    const stdout = await text(must(child.stdout, 'stdout'))
    expect({ code: await end, stderr: await stderr }).toEqual({ code: 0, stderr: '' })
    for (const state of [
      'WORKING',
      'WAITING_FOR_SANDBOX',
      'STARTING_CONVERSATION',
      'READY',
      'PAUSED',
      'RUNNING',
    ])
      expect(stdout).toContain(state)
    expect(stdout).toMatch(/its file contains (\d+), and 1\.5 s later \1\n/)
    expect(stdout).toMatch(/\d+ {2}meta\.json\n/)
    expect(stdout).toContain('0 processes, 0 directories of sandboxes')
    const isApart = /namespaces: its own view/.test(stdout)
    expect(stdout).toContain(isApart ? 'invisible inside the sandbox' : 'no isolation')
    if (env.SLIPWAY_ISOLATION === 'none') expect(isApart).toBe(false)
    expect(stdout).not.toContain('\u001b')
    expect(stdout).not.toContain('sk-slipway-')
    await expectNothingLeft(temporary)
  },
)

test.each([
  ['WAITING_FOR_SANDBOX', 'SIGINT'],
  ['▸ terminal', 'SIGTERM'],
  ['PAUSED after', 'SIGHUP'],
] as const)('stopped after "%s" by %s, the demo leaves nothing behind', async (words, signal) => {
  const { child, temporary, end, stderr } = await spawnDemo()
  await waitForOutput(child, words)
  child.kill(signal)
  // A second signal does not end it before the sandboxes are gone.
  child.kill(signal)
  child.stdout?.resume()
  expect(await end).toBe(1)
  expect(await stderr).toContain('Ending the sandbox')
  await expectNothingLeft(temporary)
})

test('with a closed pipe the demo leaves nothing behind', async () => {
  const { child, temporary, end } = await spawnDemo()
  await waitForOutput(child, 'READY')
  child.stdout?.destroy()
  expect(await end).toBe(1)
  await expectNothingLeft(temporary)
})

test('when its sandbox crashes, the demo reports the failure and leaves nothing behind', async () => {
  const { child, temporary, end, stderr } = await spawnDemo()
  await waitForOutput(child, 'READY')
  for (const id of (await findProcesses(temporary)) ?? []) {
    const line = await readFile(`/proc/${id}/cmdline`, 'utf8').catch(() => '')
    if (id !== child.pid && line.includes('\0serve\0')) process.kill(id, 'SIGKILL')
  }
  child.stdout?.resume()
  expect(await end).toBe(1)
  expect(await stderr).toMatch(/^slipway: /m)
  await expectNothingLeft(temporary)
})
