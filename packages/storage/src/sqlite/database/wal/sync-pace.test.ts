import { expect, test } from 'vitest'
import { SyncPace } from './sync-pace.ts'

test('syncs are on the event loop until one is slow or fails, and again after 32 fast ones in a row', () => {
  let nowMs = 0
  const pace = new SyncPace(() => nowMs)
  const sync = (ms: number) => {
    const end = pace.beginSync()
    nowMs += ms
    end()
  }
  const countUntilFast = () => {
    for (let syncs = 0; ; syncs++) {
      if (pace.isFast) return syncs
      sync(1)
    }
  }
  expect(countUntilFast()).toBe(0)
  for (let n = 0; n < 100; n++) sync(9)
  expect(pace.isFast).toBe(true)
  sync(10)
  expect(pace.isFast).toBe(false)
  for (let n = 0; n < 31; n++) sync(1)
  sync(2_000)
  expect(countUntilFast()).toBe(32)
  pace.beginSync()
  expect(countUntilFast()).toBe(32)
  pace.reset()
  expect(countUntilFast()).toBe(32)
})
