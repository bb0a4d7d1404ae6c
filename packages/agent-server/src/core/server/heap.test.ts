import { setTimeout as sleep } from 'node:timers/promises'
import { loadLibc } from '@slipway/shared/process'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { collectGarbage, shrinkHeapWhenIdle } from './heap.ts'

/** The value after a second in which the process rests. */
function afterRest(clock: FakeClock, value: () => number): () => Promise<number> {
  return async () => {
    await sleep(200)
    await clock.advance(1_000)
    return value()
  }
}

function createGarbage(): number {
  const held = Array.from({ length: 400_000 }, (_, i) => ({ text: `number ${i}`, more: [i] }))
  return held.length
}

test('memory that is needed no more is given back', () => {
  createGarbage()
  const before = process.memoryUsage()
  collectGarbage()
  const after = process.memoryUsage()
  expect(after.heapUsed).toBeLessThan(before.heapUsed)
  expect(after.heapTotal).toBeLessThan(before.heapTotal)
})

test('it happens on its own in a calm second, and again after work', async () => {
  createGarbage()
  const before = process.memoryUsage().heapTotal
  const clock = new FakeClock()
  using _ = shrinkHeapWhenIdle(clock)
  const heapBytes = () => process.memoryUsage().heapTotal
  await expect.poll(afterRest(clock, heapBytes), { timeout: 60_000 }).toBeLessThan(before)
  // The trim after it, which takes the size at rest.
  await afterRest(clock, heapBytes)()
  const held = Array.from({ length: 1_000_000 }, (_, i) => ({ text: `number ${i}`, more: [i] }))
  const grown = heapBytes()
  held.length = 0
  await expect.poll(afterRest(clock, heapBytes), { timeout: 60_000 }).toBeLessThan(grown - 48 * 1024 * 1024)
}, 120_000)

test.skipIf((await loadLibc()) === undefined)(
  'what was freed between buffers that are in use is given back',
  async () => {
    const held = Array.from({ length: 40_000 }, () => Buffer.allocUnsafeSlow(4_000).fill(1))
    const rest = held.filter((_, index) => index % 100 === 0)
    held.length = 0
    const clock = new FakeClock()
    using _ = shrinkHeapWhenIdle(clock)
    const before = process.memoryUsage.rss()
    await expect
      .poll(
        afterRest(clock, () => process.memoryUsage.rss()),
        { timeout: 60_000 },
      )
      .toBeLessThan(before - 100e6)
    expect(rest).toHaveLength(400)
  },
  120_000,
)
