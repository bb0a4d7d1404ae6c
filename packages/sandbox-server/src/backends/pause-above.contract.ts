import { expect, onTestFinished, test } from 'vitest'
import { type BackendUnderTest, observe, probeScript, runInside, waitAlive } from './backend.contract.ts'

const mib = 2 ** 20

/** What each Backend must keep that measures the disk of its sandboxes. */
export function pauseAboveContract(name: string, open: () => Promise<BackendUnderTest>): void {
  test(`${name}: it is frozen to be measured, and stays paused above the limit alone`, {
    timeout: 120_000,
  }, async () => {
    const at = await open()
    onTestFinished(() => at.close())
    const order = at.createConfig({ command: at.node(probeScript) })
    const { backend } = at
    if (backend.diskUsage === undefined || backend.pauseAbove === undefined) throw new Error('it measures')
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
}
