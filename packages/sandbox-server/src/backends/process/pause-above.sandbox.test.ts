import { expect, onTestFinished, test } from 'vitest'
import { observe, probeScript, runInside, waitAlive } from '../backend.contract.ts'
import { openProcessBackend } from './testing/process-backend-fixture.ts'

const mib = 2 ** 20

test.each([
  ['a jail and limits', {}],
  ['a plain process', { isolate: 'none', limit: 'none' }],
] as const)('%s is frozen to be measured, and stays paused above the limit alone', async (_, options) => {
  const at = await openProcessBackend(options)
  onTestFinished(() => at.close())
  const order = at.createConfig({ command: at.node(probeScript) })
  const { backend } = at
  await backend.start(order)
  await waitAlive(backend, order.id)
  const before = Number(await backend.diskUsage(order.id))
  await runInside(
    backend,
    order.id,
    `const fs = require('node:fs'); fs.writeFileSync('kept', Buffer.alloc(4 << 20, 1))
    const file = fs.openSync('deleted', 'w'); fs.writeSync(file, Buffer.alloc(8 << 20, 1)); fs.rmSync('deleted')
    fs.closeSync(fs.openSync('sparse', 'w')); fs.truncateSync('sparse', 2 ** 30); globalThis.file = file`,
  )
  const states: string[] = []
  let isDone = false
  const watching = (async () => {
    while (!isDone) states.push((await observe(backend, order.id)).state)
  })()
  const measured = await backend.pauseAbove(order.id, 1024 * mib)
  isDone = true
  await watching
  expect(Number(measured) - before).toBeGreaterThanOrEqual(12 * mib)
  expect(Number(measured) - before).toBeLessThan(13 * mib)
  expect(new Set(states)).toEqual(new Set(['running']))
  await waitAlive(backend, order.id)

  expect(await backend.pauseAbove(order.id, 1)).toBe(measured)
  expect((await observe(backend, order.id)).state).toBe('paused')
  // A paused one is left as it is.
  expect(await backend.pauseAbove(order.id, 1024 * mib)).toBeUndefined()
  expect((await observe(backend, order.id)).state).toBe('paused')
  await backend.resume(order)
  await waitAlive(backend, order.id)
  expect(await backend.pauseAbove('unknown', 1)).toBeUndefined()
})
