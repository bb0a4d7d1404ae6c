import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'

const main = fileURLToPath(new URL('main.ts', import.meta.url))

/** Processes with the text in their arguments or environment, by pid. */
async function findProcesses(text: string): Promise<Map<number, string>> {
  const found = new Map<number, string>()
  for (const name of (await readdir('/proc')).filter((each) => /^\d+$/.test(each))) {
    const [args, environment] = await Promise.all(
      ['cmdline', 'environ'].map((file) => readFile(`/proc/${name}/${file}`, 'latin1').catch(() => '')),
    )
    if (args?.includes(text) || environment?.includes(text))
      found.set(Number(name), (args ?? '').replaceAll('\0', ' '))
  }
  return found
}

/** Starts the benchmark of plain sandboxes; resolves when the supervisor of one runs. */
async function startBenchmark() {
  const temporary = await mkdtemp(join(tmpdir(), 'slipway-cut-'))
  onTestFinished(() => rm(temporary, { recursive: true, force: true }))
  const child = spawn(process.execPath, [main, 'sandboxes-process', '--quick'], {
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

test.skipIf(process.platform !== 'linux').each(victims)(
  'a benchmark of sandboxes that ends by %s leaves no process and no file',
  { timeout: 300_000 },
  async (how) => {
    const { temporary, child, ended } = await startBenchmark()
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
