import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Bell, Sleeper } from './signal.ts'

test('who took the count before a ring is not kept waiting', async () => {
  const bell = new Bell()
  const { rings } = bell
  bell.ring()
  using sleeper = new Sleeper(new AbortController().signal)
  await bell.since(rings, sleeper)
  expect(bell.rings).toBe(1)
})

test('a ring wakes everybody who waits, an abort only its own, and nothing stays behind', async () => {
  const bell = new Bell()
  const stops = [new AbortController(), new AbortController(), new AbortController()]
  const sleepers = stops.map(({ signal }) => new Sleeper(signal))
  const woken: number[] = []
  const waits = sleepers.map((sleeper, i) => bell.since(0, sleeper).then(() => woken.push(i)))
  stops[1]?.abort()
  await waits[1]
  expect([woken, bell.waiting]).toEqual([[1], 2])
  bell.ring()
  await Promise.all(waits)
  expect([woken.toSorted(), bell.waiting]).toEqual([[0, 1, 2], 0])
  for (const sleeper of sleepers) sleeper[Symbol.dispose]()
  for (const { signal } of stops) expect(getEventListeners(signal, 'abort')).toEqual([])
})

test('a sleeper whose signal has aborted does not wait', async () => {
  using sleeper = new Sleeper(AbortSignal.abort())
  await new Bell().since(0, sleeper)
})
