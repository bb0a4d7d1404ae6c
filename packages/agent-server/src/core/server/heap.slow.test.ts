import { setTimeout as sleep } from 'node:timers/promises'
import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test, vi } from 'vitest'
import { shrinkHeapWhenIdle } from './heap.ts'

/** A second of the clock in which the process works, or rests, for a moment. */
async function pass(clock: FakeClock, load: 'busy' | 'idle'): Promise<void> {
  if (load === 'idle') await sleep(100)
  else for (const end = performance.now() + 100; performance.now() < end; );
  await clock.advance(1_000)
}

test('work that began with the start is released after it', async () => {
  const clock = new FakeClock()
  const release = vi.fn(async () => {})
  using _ = shrinkHeapWhenIdle(clock, release)
  for (let second = 0; second < 5; second++) await pass(clock, 'busy')
  for (let second = 0; second < 2; second++) await pass(clock, 'idle')
  expect(release).not.toHaveBeenCalled()
  await expect
    .poll(
      async () => {
        await pass(clock, 'idle')
        return release.mock.calls.length
      },
      { timeout: 20_000 },
    )
    .toBe(1)
})

test('a start without work releases nothing', async () => {
  const clock = new FakeClock()
  const release = vi.fn(async () => {})
  using _ = shrinkHeapWhenIdle(clock, release)
  await pass(clock, 'busy')
  for (let second = 0; second < 6; second++) await pass(clock, 'idle')
  expect(release).not.toHaveBeenCalled()
})
