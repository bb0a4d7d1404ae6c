import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { maxSilences, SilenceLimit } from './silence-limit.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('a call without an answer ends after its limit', () => {
  using limit = new SilenceLimit(1000)
  vi.advanceTimersByTime(999)
  expect(limit.signal.aborted).toBe(false)
  vi.advanceTimersByTime(1)
  expect(limit.signal.aborted).toBe(true)
  expect(limit.failure).toBe('The tool gave no answer within 1 seconds.')
})

test('progress begins the limit again, for twelve limits at most', () => {
  using limit = new SilenceLimit(1000)
  let progress = 0
  for (; !limit.signal.aborted; progress++) {
    limit.addProgress({ progress, total: 50, message: 'indexing' })
    vi.advanceTimersByTime(900)
  }
  expect(progress * 900).toBeGreaterThan((maxSilences - 1) * 1000)
  expect(progress * 900).toBeLessThanOrEqual((maxSilences + 1) * 1000)
  expect(limit.failure).toMatch(/no progress for 1 seconds\. Its last progress: \d+ of 50, indexing\./)
})
