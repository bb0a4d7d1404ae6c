import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { findProcesses } from '../scripts/test/testing/find-processes.ts'

const main = fileURLToPath(new URL('main.ts', import.meta.url))

/** Starts the benchmark of a kind of sandboxes; resolves when the supervisor of one runs. */
async function startBenchmark(name: string) {
  const temporary = await mkdtemp(join(tmpdir(), 'cut-'))
  onTestFinished(() => rm(temporary, { recursive: true, force: true }))
  const child = spawn(process.execPath, [main, name, '--quick'], {
    env: { ...process.env, TMPDIR: temporary },
    stdio: 'ignore',
  })
  const ended = once(child, 'exit')
  const hasSandbox = async () =>
    [...(await findProcesses(temporary)).values()].some((args) => args.includes('slipway-sandbox'))
  await expect.poll(hasSandbox, { timeout: 120_000, interval: 100 }).toBe(true)
  return { temporary, child, ended }
}

const victims = ['SIGKILL', 'SIGTERM', 'SIGINT', 'SIGKILL of the child'] as const
const hasBubblewrap = [
  ['bwrap', '--ro-bind', '/', '/', 'true'] as const,
  ['pasta', '--version'] as const,
].every(([program, ...args]) => spawnSync(program, args).status === 0)
const kinds = ['sandboxes-process', ...(hasBubblewrap ? ['sandboxes-bubblewrap'] : [])]
/** Every end of every kind at night, otherwise each end of one kind. */
const cases =
  process.env.SLIPWAY_NIGHTLY === '1'
    ? kinds.flatMap((kind) => victims.map((how) => [kind, how] as const))
    : victims.map((how, at) => [String(kinds[at % kinds.length]), how] as const)

test.skipIf(process.platform !== 'linux').each(cases)(
  'the benchmark %s that ends by %s leaves no process and no file',
  { timeout: 300_000 },
  async (name, how) => {
    const { temporary, child, ended } = await startBenchmark(name)
    await sleep(Math.random() * 3_000)
    const running = await findProcesses(temporary)
    if (how === 'SIGKILL of the child') {
      const [inner] = [...running].find(([, args]) => args.includes('--child')) ?? []
      if (inner !== undefined) process.kill(inner, 'SIGKILL')
    } else child.kill(how)
    await ended
    await expect
      .poll(async () => [...(await findProcesses(temporary)).values()], { timeout: 90_000, interval: 250 })
      .toEqual([])
    // Node's cache of compiled code is of all programs.
    const list = async () => (await readdir(temporary)).filter((name) => name !== 'node-compile-cache')
    await expect.poll(list, { timeout: 90_000, interval: 250 }).toEqual([])
  },
)
