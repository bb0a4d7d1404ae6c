import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { findProcesses } from './testing/find-processes.ts'

/** Two moments, or those of `SLIPWAY_INTERRUPT_ROUNDS`. */
const rounds = Number(process.env.SLIPWAY_INTERRUPT_ROUNDS ?? 2)
const latestMs = 12_000
const signals = ['SIGKILL', 'SIGINT', 'SIGTERM'] as const
const cases = Array.from({ length: rounds }, (_, round) => [signals[round % signals.length], round] as const)
/** Servers, sandboxes and a database; their tests take longer than `latestMs`. */
const files = ['conformance/smoke/agent-server', 'conformance/smoke/sandbox-server']

test.skipIf(process.platform !== 'linux').each(cases)(
  'a run that gets %s leaves no process, no mount, no folder and no database (round %i)',
  { timeout: 240_000 },
  async (signal) => {
    const temporary = await mkdtemp(join(tmpdir(), 'cut-'))
    onTestFinished(() => rm(temporary, { recursive: true, force: true }))
    // PostgreSQL runs as another user.
    await chmod(temporary, 0o711)
    const { SLIPWAY_TEST_DATABASE_URL: _, SLIPWAY_TEST_RESULTS: __, ...env } = process.env
    const main = resolve(import.meta.dirname, 'main.ts')
    const child = spawn(process.execPath, [main, 'daily', ...files], {
      env: { ...env, TMPDIR: temporary },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk) => (output += chunk))
    const ended = once(child, 'exit')
    const running = async () => `${output}${[...(await findProcesses(temporary)).values()].join('\n')}`
    await expect.poll(running, { timeout: 60_000, interval: 100 }).toContain('vitest.mjs')
    await sleep(Math.random() * latestMs)
    child.kill(signal)
    await ended
    const left = async () => ({
      processes: [...(await findProcesses(temporary)).values()],
      mounts: (await readFile('/proc/self/mounts', 'utf8'))
        .split('\n')
        .filter((row) => row.includes(temporary)),
      // Node's cache of compiled code is of all programs.
      files: (await readdir(temporary)).filter((name) => name !== 'node-compile-cache'),
    })
    await expect
      .poll(left, { timeout: 120_000, interval: 250 })
      .toEqual({ processes: [], mounts: [], files: [] })
  },
)
