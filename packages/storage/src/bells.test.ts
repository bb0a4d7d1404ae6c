import { getEventListeners } from 'node:events'
import { expect, test } from 'vitest'
import { Bell } from './bells.ts'

test('who took the count before a ring is not kept waiting', async () => {
  const bell = new Bell()
  const { rings } = bell
  bell.ring()
  await bell.since(rings, new AbortController().signal)
  expect(bell.rings).toBe(1)
})

test('a ring wakes everybody who waits, an abort only its own, and no listener stays', async () => {
  const bell = new Bell()
  const stops = [new AbortController(), new AbortController(), new AbortController()]
  const woken: number[] = []
  const waits = stops.map((stop, i) => bell.since(0, stop.signal).then(() => woken.push(i)))
  stops[1]?.abort()
  await waits[1]
  expect(woken).toEqual([1])
  bell.ring()
  await Promise.all(waits)
  expect(woken.toSorted()).toEqual([0, 1, 2])
  for (const { signal } of stops) expect(getEventListeners(signal, 'abort')).toEqual([])
})
