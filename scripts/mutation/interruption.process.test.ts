import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { findProcesses } from '../test/testing/find-processes.ts'

const results = resolve(import.meta.dirname, '../../bench/results/mutation.json')

test.skipIf(process.platform !== 'linux').each(['SIGINT', 'SIGKILL'] as const)(
  'a mutation check that gets %s leaves no process and no folder, and records nothing',
  { timeout: 240_000 },
  async (signal) => {
    const temporary = await mkdtemp(join(tmpdir(), 'cut-'))
    onTestFinished(() => rm(temporary, { recursive: true, force: true }))
    const before = await readResults()
    const child = spawn(process.execPath, [resolve(import.meta.dirname, 'main.ts'), '--related'], {
      env: { ...process.env, TMPDIR: temporary },
      stdio: 'ignore',
    })
    const ended = once(child, 'exit')
    const processes = async () => [...(await findProcesses(temporary)).values()].join('\n')
    // The compiler, before any fault is planted.
    await expect.poll(processes, { timeout: 120_000, interval: 100 }).toContain('types.json')
    child.kill(signal)
    await ended
    const left = async () => ({
      processes: await processes(),
      // Node's cache of compiled code is of all programs.
      files: (await readdir(temporary)).filter((name) => name !== 'node-compile-cache'),
    })
    await expect.poll(left, { timeout: 60_000, interval: 250 }).toEqual({ processes: '', files: [] })
    expect(await readResults()).toBe(before)
  },
)

test.skipIf(process.platform !== 'linux')(
  'a mutation check whose time is over ends, and leaves no process and no folder',
  { timeout: 240_000 },
  async () => {
    const temporary = await mkdtemp(join(tmpdir(), 'over-'))
    onTestFinished(() => rm(temporary, { recursive: true, force: true }))
    const before = await readResults()
    const args = [resolve(import.meta.dirname, 'main.ts'), '--related', '--minutes', '0.001']
    const child = spawn(process.execPath, args, {
      env: { ...process.env, TMPDIR: temporary },
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    expect(await text(child.stdout)).toContain('Ended after 0.001 minutes')
    expect(child.exitCode ?? (await once(child, 'exit'))[0]).toBe(1)
    expect([...(await findProcesses(temporary)).values()]).toEqual([])
    expect((await readdir(temporary)).filter((name) => name !== 'node-compile-cache')).toEqual([])
    expect(await readResults()).toBe(before)
  },
)

function readResults(): Promise<string> {
  return readFile(results, 'utf8').catch(() => '')
}
