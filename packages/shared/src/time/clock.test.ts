import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Clock, repeat, systemClock } from './clock.ts'
import { FakeClock } from './testing/fake-clock.ts'

const clocks: readonly [string, () => { clock: Clock; pass: (ms: number) => Promise<unknown> }][] = [
  ['the system', () => ({ clock: systemClock, pass: (ms) => new Promise((done) => setTimeout(done, ms)) })],
  [
    'a test',
    () => {
      const clock = new FakeClock()
      return { clock, pass: (ms) => clock.advance(ms) }
    },
  ],
]

test.each(clocks)('a timer of %s runs once, and not at all when it is cancelled', async (_, open) => {
  const { clock, pass } = open()
  const runs: string[] = []
  clock.schedule(10, () => runs.push('run'))
  clock.schedule(10, () => runs.push('cancelled')).cancel()
  await pass(40)
  expect(runs).toEqual(['run'])
})

test.each(clocks)('a sleep of %s ends by its time or with the abort', async (_, open) => {
  const { clock, pass } = open()
  const stop = new AbortController()
  const sleeps = Promise.allSettled([
    clock.sleep(10),
    clock.sleep(60_000, { signal: stop.signal }),
    clock.sleep(60_000, { signal: AbortSignal.abort() }),
  ])
  await pass(40)
  stop.abort()
  const aborted = { status: 'rejected', reason: expect.objectContaining({ name: 'AbortError' }) }
  expect(await sleeps).toEqual([{ status: 'fulfilled', value: undefined }, aborted, aborted])
})

test.each(clocks)('a limit of %s aborts with a TimeoutError', async (_, open) => {
  const { clock, pass } = open()
  const signal = clock.timeout(9.5)
  expect(signal.aborted).toBe(false)
  await pass(60)
  expect(signal.reason).toMatchObject({ name: 'TimeoutError' })
})

test.each(clocks)('now and monotonic of %s grow with the time', async (_, open) => {
  const { clock, pass } = open()
  const [now, monotonic] = [clock.now(), clock.monotonic()]
  await pass(40)
  expect(clock.now() - now).toBeGreaterThan(30)
  expect(clock.monotonic() - monotonic).toBeGreaterThan(30)
})

test.each(clocks)('a repeated call of %s ends when it is cancelled, also on its own', async (_, open) => {
  const { clock, pass } = open()
  let count = 0
  const timer = repeat(clock, 10, () => {
    if (++count === 2) timer.cancel()
  })
  await pass(200)
  expect(count).toBe(2)
})

test('a system timer takes waits beyond its own limit', async () => {
  let isCalled = false
  const timer = systemClock.schedule(10 ** 12, () => {
    isCalled = true
  })
  expect(systemClock.timeout(10 ** 12).aborted).toBe(false)
  await new Promise((done) => setTimeout(done, 10))
  timer.cancel()
  expect(isCalled).toBe(false)
})

test('advance runs timers in order, and what they schedule, each at its own moment', async () => {
  const clock = new FakeClock(0)
  const runs: (readonly [string, number])[] = []
  const note = (name: string) => runs.push([name, clock.now()])
  clock.schedule(30, () => note('late'))
  clock.schedule(10, () => note('early'))
  clock.schedule(10, () => note('second'))
  void clock.sleep(20).then(async () => {
    note('slept')
    await clock.sleep(5)
    note('slept again')
  })
  await clock.advance(29)
  expect(runs).toEqual([
    ['early', 10],
    ['second', 10],
    ['slept', 20],
    ['slept again', 25],
  ])
  expect([clock.now(), clock.waits]).toEqual([29, [30]])
  await clock.advance(1)
  expect(runs.at(-1)).toEqual(['late', 30])
})

test('a wait of 0 ms is over although no time passes', async () => {
  const clock = new FakeClock(0)
  await clock.sleep(0)
  expect([clock.now(), clock.waits]).toEqual([0, []])
})

test('untilWaiting waits for somebody to wait so long', async () => {
  const clock = new FakeClock()
  const order: string[] = []
  const waiting = clock.untilWaiting(50).then(() => order.push('waiting'))
  await nextTurn()
  order.push('scheduled')
  clock.schedule(50, () => {})
  await waiting
  expect(order).toEqual(['scheduled', 'waiting'])
})
