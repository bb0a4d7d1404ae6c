import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test, vi } from 'vitest'
import { shrinkHeapWhenIdle } from './heap.ts'

function work(ms: number): void {
  for (const end = performance.now() + ms; performance.now() < end; );
}

test('work that began with the start is released after it', async () => {
  const release = vi.fn(async () => {})
  using _ = shrinkHeapWhenIdle(release)
  for (let second = 0; second < 5; second++) {
    work(900)
    await sleep(100)
  }
  expect(release).not.toHaveBeenCalled()
  await expect.poll(() => release.mock.calls.length, { timeout: 20_000 }).toBe(1)
}, 40_000)

test('a start without work releases nothing', async () => {
  const release = vi.fn(async () => {})
  using _ = shrinkHeapWhenIdle(release)
  work(900)
  await sleep(6_000)
  expect(release).not.toHaveBeenCalled()
}, 20_000)
