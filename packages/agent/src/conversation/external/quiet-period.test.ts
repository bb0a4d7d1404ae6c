import { FakeClock } from '@slipway/shared/time/testing'
import { expect, test } from 'vitest'
import { QuietPeriod } from './quiet-period.ts'

const limits = { quietMs: 250, limitMs: 1_000 }
const { signal } = new AbortController()

test('it waits for the silence after the last note', async () => {
  const clock = new FakeClock()
  const period = new QuietPeriod(clock, limits)
  let isOver = false
  void period.wait(signal).then(() => {
    isOver = true
  })
  await clock.advance(200)
  period.note()
  await clock.advance(249)
  expect(isOver).toBe(false)
  await clock.advance(1)
  expect(isOver).toBe(true)
})

test('notes without end are waited for until the limit, and an abort ends the wait', async () => {
  const clock = new FakeClock()
  const period = new QuietPeriod(clock, limits)
  let isOver = false
  void period.wait(signal).then(() => {
    isOver = true
  })
  for (let ms = 0; ms < 900; ms += 100) {
    await clock.advance(100)
    period.note()
  }
  expect(isOver).toBe(false)
  await clock.advance(100)
  expect(isOver).toBe(true)
  const controller = new AbortController()
  const other = new QuietPeriod(clock, limits).wait(controller.signal)
  controller.abort()
  await expect(other).rejects.toThrow('aborted')
})
