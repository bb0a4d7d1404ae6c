import { setImmediate as turn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { FakeClock } from '../time/testing/index.ts'
import { KeyedSignal, Signal, Waiter } from './signal.ts'

test('a notification between taking the version and waiting is not missed', async () => {
  const signal = new Signal()
  using waiter = new Waiter(new AbortController().signal)
  const { version } = signal
  signal.notify()
  await signal.wait(version, waiter)
  expect(signal.version).toBe(1)
})

test('one notification wakes everyone who waits; an abort wakes its own waiter and leaves no trace', async () => {
  const signal = new Signal()
  const stop = new AbortController()
  using first = new Waiter(new AbortController().signal)
  using second = new Waiter(stop.signal)
  const woken: string[] = []
  const waits = [
    signal.wait(0, first).then(() => woken.push('first')),
    signal.wait(0, second).then(() => woken.push('second')),
  ]
  expect(signal.waiting).toBe(2)
  stop.abort()
  await waits[1]
  expect([woken, signal.waiting]).toEqual([['second'], 1])
  signal.notify()
  await waits[0]
  expect([woken, signal.waiting]).toEqual([['second', 'first'], 0])
})

test('waitFor tells a notification from silence', async () => {
  const signal = new Signal()
  const clock = new FakeClock()
  const silence = signal.waitFor(signal.version, 60_000, clock)
  await clock.advance(60_000)
  expect(await silence).toBe(false)
  const wait = signal.waitFor(signal.version, 60_000, clock)
  signal.notify()
  expect(await wait).toBe(true)
  expect(await signal.waitFor(0, 60_000, clock)).toBe(true)
  expect([signal.waiting, clock.waits]).toEqual([0, []])
})

test('until reads at once and after each notification of its key, and forgets the key', async () => {
  const signals = new KeyedSignal()
  const { signal } = new AbortController()
  const values = new Map<string, number>()
  const wait = signals.until('a', async () => values.get('a'), signal)
  await turn()
  values.set('b', 1)
  signals.notify('b')
  await turn()
  expect(signals.waiting).toBe(1)
  values.set('a', 2)
  signals.notify('a')
  expect(await wait).toBe(2)
  expect(signals.waiting).toBe(0)
})

test('a notification during a read is seen by the next one; an abort rejects with its reason', async () => {
  const signals = new KeyedSignal()
  const stop = new AbortController()
  let reads = 0
  const read = async () => {
    reads += 1
    if (reads === 1) signals.notify('a')
    return reads === 2 ? 'done' : undefined
  }
  expect(await signals.until('a', read, stop.signal)).toBe('done')
  const aborted = signals.until('a', async () => undefined, stop.signal)
  await turn()
  stop.abort(new Error('stopped'))
  await expect(aborted).rejects.toThrow('stopped')
  expect(signals.waiting).toBe(0)
})
