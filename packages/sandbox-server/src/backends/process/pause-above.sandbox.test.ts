import { existsSync, writeFileSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive } from '../backend.contract.ts'
import { pauseAboveContract } from '../pause-above.contract.ts'
import { findProcess } from './host/processes.ts'
import { sandboxPaths } from './sandbox-paths.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

for (const [name, options] of [
  ['a jail and limits', {}],
  ['a plain process', { isolate: 'none', limit: 'none' }],
] as const)
  pauseAboveContract(name, () => openProcessBackend(options))

test('processes that a server left stopped, when it ended while it froze or thawed, continue', async () => {
  const at = await openProcessBackend({ isolate: 'none', limit: 'none' })
  onTestFinished(() => at.close())
  const order = at.createConfig({ command: at.node(probeScript) })
  await at.backend.start(order)
  await waitAlive(at.backend, order.id)
  const { thawing } = sandboxPaths(at.directory, order.id)
  const spawned = `return require('node:child_process').spawn('sleep', ['600'], { stdio: 'ignore' }).pid`
  const pid = Number((await runInside(at.backend, order.id, spawned)).result)
  const isStopped = async () => (await findProcess(pid))?.state === 'T'

  const noted: boolean[] = []
  const measuring = at.backend.pauseAbove(order.id, 2 ** 40).then(() => noted.push(existsSync(thawing)))
  await expect.poll(isStopped, { interval: 1 }).toBe(true)
  noted.push(existsSync(thawing))
  await measuring
  expect([noted, await isStopped()]).toEqual([[true, false], false])

  process.kill(pid, 'SIGSTOP')
  writeFileSync(thawing, '')
  const next = await at.reopen()
  expect((await observe(next, order.id)).state).toBe('running')
  expect([existsSync(thawing), await isStopped()]).toEqual([false, false])
  // What its user stops stays as it is.
  process.kill(pid, 'SIGSTOP')
  expect((await observe(next, order.id)).state).toBe('running')
  expect(await isStopped()).toBe(true)
})

test('a process that a debugger has stopped keeps no sandbox from being measured, paused and resumed', async () => {
  const at = await openProcessBackend({ isolate: 'none', limit: 'none' })
  onTestFinished(() => at.close())
  const order = at.createConfig({ command: at.node(probeScript) })
  const { backend } = at
  await backend.start(order)
  await waitAlive(backend, order.id)
  const traced = 'import ctypes, os, signal; ctypes.CDLL(None).ptrace(0, 0, 0, 0); os.kill(os.getpid(), 19)'
  const spawned = `return require('node:child_process').spawn('python3', ['-c', ${JSON.stringify(traced)}]).pid`
  const pid = Number((await runInside(backend, order.id, spawned)).result)
  const state = async () => (await findProcess(pid))?.state
  await expect.poll(state).toBe('t')
  expect(await backend.pauseAbove(order.id, 2 ** 40)).toBeGreaterThan(0)
  await waitAlive(backend, order.id)
  await backend.pause(order.id)
  expect((await observe(backend, order.id)).state).toBe('paused')
  await backend.resume(order)
  await waitAlive(backend, order.id)
  expect(await state()).toBe('t')
})
