import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Signal, Waiter } from './signal.ts'

test('who took the count before a ring is not kept waiting', async () => {
  const bell = new Signal()
  const { version } = bell
  bell.notify()
  using sleeper = new Waiter(new AbortController().signal)
  await bell.wait(version, sleeper)
  expect(bell.version).toBe(1)
})

test('a ring wakes everybody who waits, an abort only its own, and nothing stays behind', async () => {
  const bell = new Signal()
  const stops = [new AbortController(), new AbortController(), new AbortController()]
  const sleepers = stops.map(({ signal }) => new Waiter(signal))
  const woken: number[] = []
  const waits = sleepers.map((sleeper, i) => bell.wait(0, sleeper).then(() => woken.push(i)))
  stops[1]?.abort()
  await waits[1]
  expect([woken, bell.waiting]).toEqual([[1], 2])
  bell.notify()
  await Promise.all(waits)
  expect([woken.toSorted(), bell.waiting]).toEqual([[0, 1, 2], 0])
  for (const sleeper of sleepers) sleeper[Symbol.dispose]()
  for (const { signal } of stops) expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('a sleeper whose signal has aborted does not wait', async () => {
  using sleeper = new Waiter(AbortSignal.abort())
  await new Signal().wait(0, sleeper)
})
