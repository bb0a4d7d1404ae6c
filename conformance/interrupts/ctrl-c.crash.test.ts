import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '@slipway/client'
import { findProcesses } from '@slipway/examples/find-processes'
import { must } from '@slipway/protocol'
import { commandMain } from '@slipway/shared/process/testing'
import { afterAll, expect, test, vi } from 'vitest'
import { SeededRandom } from '../../bench/support/seeded-random.ts'
import { sandboxNetworkEnv } from '../../packages/cli/src/testing/sandbox-network.ts'
import { MockProvider } from '../support/mock-provider.ts'

/**
 * Ctrl-C, which a terminal sends to every process of its foreground group, at random moments of
 * programs that start others. `SLIPWAY_INTERRUPT_ROUNDS` is the number of moments, one of each program when
 * unset; `SLIPWAY_INTERRUPT_SEED` repeats those of an earlier run.
 */
const rounds = Number(process.env.SLIPWAY_INTERRUPT_ROUNDS ?? 7)
const seed = Number(process.env.SLIPWAY_INTERRUPT_SEED ?? Date.now() % 1_000_000)
const random = new SeededRandom(seed)
console.log(`SLIPWAY_INTERRUPT_SEED=${seed}, ${rounds} moments`)

/** An idle machine needs less than a second. */
const exitMs = 120_000
vi.setConfig({ testTimeout: 360_000 })

const hasBubblewrap = [
  ['bwrap', '--ro-bind', '/', '/', 'true'] as const,
  ['pasta', '--version'] as const,
].every(([program, ...args]) => spawnSync(program, args).status === 0)
const isolation: Record<string, string> = hasBubblewrap ? sandboxNetworkEnv() : { SLIPWAY_ISOLATION: 'none' }

const provider = await MockProvider.open()
provider.replies = [
  {
    text: 'I work.',
    calls: [{ name: 'terminal', arguments: { command: 'sleep 500 & sleep 500', security_risk: 'LOW' } }],
  },
]
const runEnv = { LLM_MODEL: 'openai-compatible/m', LLM_BASE_URL: `${provider.url}/v1` }
afterAll(async () => await provider[Symbol.asyncDispose]())

interface Program {
  readonly name: string
  readonly args: readonly string[]
  /** The moments lie before this one, counted from the start, or from the end of `prepare`. */
  readonly withinMs: number
  readonly env?: Readonly<Record<string, string>>
  readonly prepare?: (child: ChildProcess, directory: string) => Promise<void>
}

const programs: readonly Program[] = [
  { name: 'demo', args: ['demo'], withinMs: 10_000 },
  { name: 'demo --fast', args: ['demo', '--fast'], withinMs: 4_000 },
  { name: 'demo-sandbox --fast', args: ['demo-sandbox', '--fast'], withinMs: 8_000, env: isolation },
  { name: 'run', args: ['run', 'Do the work'], withinMs: 5_000, env: runEnv },
  { name: 'serve', args: ['serve', '--port', '0', '--data', 'data'], withinMs: 3_000 },
  {
    name: 'serve with a run',
    args: ['--json', 'serve', '--port', '0', '--data', 'data', '--no-key', '--no-console'],
    withinMs: 2_000,
    prepare: startRun,
  },
  {
    name: 'sandbox-server',
    args: ['sandbox-server', '--port', '0', '--data', 'data'],
    withinMs: 3_000,
    env: isolation,
  },
]

/** Starts a run on the server that the program is. */
async function startRun(child: ChildProcess, directory: string): Promise<void> {
  const [line] = await once(createInterface({ input: must(child.stdout, 'stdout') }), 'line')
  const client = new Client({ url: JSON.parse(line).url })
  await client.call('createConversation', {
    body: {
      agent: {
        llm: { model: runEnv.LLM_MODEL, base_url: runEnv.LLM_BASE_URL },
        tools: [{ name: 'terminal' }],
      },
      workspace: { working_dir: directory },
      initial_message: { content: [{ type: 'text', text: 'Do the work' }] },
    },
  })
}

const moments = Array.from({ length: rounds }, (_, round) => {
  const program = must(programs[round % programs.length], 'a program')
  return { round, program, name: program.name, ms: random.below(program.withinMs) }
})

test.each(moments)(
  '$round: $name, interrupted after $ms ms, ends and leaves no process',
  async ({ program, ms }) => {
    const directory = await realpath(await mkdtemp(join(tmpdir(), 'slipway-interrupt-')))
    for (const name of ['home', 'tmp', 'work']) await mkdir(join(directory, name))
    const inherited = Object.entries(process.env).filter(([name]) => !/^(SLIPWAY|LLM|XDG|OH)_/.test(name))
    const child = spawn(process.execPath, [commandMain, ...program.args], {
      cwd: join(directory, 'work'),
      env: {
        ...Object.fromEntries(inherited),
        HOME: join(directory, 'home'),
        TMPDIR: join(directory, 'tmp'),
        SLIPWAY_LOG_LEVEL: 'error',
        ...program.env,
      },
      // A separate group, as a shell gives to each of its commands.
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    try {
      let errors = ''
      child.stderr.on('data', (chunk) => {
        errors += chunk
      })
      child.stdout.on('data', () => undefined)
      const ended = once(child, 'close')
      await program.prepare?.(child, join(directory, 'work'))
      await Promise.race([sleep(ms), ended])
      if (child.exitCode === null && child.signalCode === null)
        process.kill(-must(child.pid, 'pid'), 'SIGINT')
      const interruptedAt = Date.now()
      const result = await Promise.race([ended, sleep(exitMs, undefined, { ref: false })])
      expect(result, `${errors}\nIt does not end.`).toBeDefined()
      console.log(`${program.name} after ${ms} ms: ${result} within ${Date.now() - interruptedAt} ms`)
      expect(errors).not.toMatch(/^\s+at .*:\d+/m)
      await expect
        .poll(async () => await findProcesses(directory), { timeout: exitMs, interval: 200 })
        .toEqual([])
      // The user's own folder, which is for the links of all programs, stays.
      const own = `slipway-${process.getuid?.()}`
      const left = await readdir(join(directory, 'tmp'), { recursive: true })
      expect(left.filter((path) => path !== own)).toEqual([])
    } finally {
      for (const pid of (await findProcesses(directory)) ?? []) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {}
      }
      await rm(directory, { recursive: true, force: true, maxRetries: 5, retryDelay: 200 })
    }
  },
)
