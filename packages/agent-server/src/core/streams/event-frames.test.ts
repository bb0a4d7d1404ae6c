import { Signal } from '@slipway/shared/async'
import { systemClock } from '@slipway/shared/time'
import { expect, test } from 'vitest'
import { withHeartbeat } from './event-frames.ts'

/** A tail of the batches that the test pushes. */
function createTail() {
  const pending: object[] = []
  const changed = new Signal()
  let end: 'open' | 'over' | Error = 'open'
  let stopped = false
  async function* start(signal: AbortSignal): AsyncGenerator<object> {
    signal.addEventListener('abort', () => {
      stopped = true
      changed.notify()
    })
    while (!signal.aborted) {
      const { version } = changed
      const next = pending.shift()
      if (next !== undefined) yield next
      else if (end === 'over') return
      else if (end !== 'open') throw end
      else await changed.waitFor(version, 60_000, systemClock)
    }
  }
  return {
    start,
    push(value: object) {
      pending.push(value)
      changed.notify()
    },
    close(how: 'over' | Error) {
      end = how
      changed.notify()
    },
    isStopped: () => stopped,
  }
}

const { signal } = new AbortController()

test('batches come in order, silence is reported, and a signal wakes the reader', async () => {
  const source = createTail()
  const wakeUp = new Signal()
  const stream = withHeartbeat(source.start, { ms: 20, wakeUp, clock: systemClock, signal })
  const batch = {}
  source.push(batch)
  expect((await stream.next()).value).toBe(batch)
  expect((await stream.next()).value).toBe('silence')
  wakeUp.notify()
  expect((await stream.next()).value).toBe('signal')
  source.close('over')
  expect(await stream.next()).toEqual({ done: true, value: undefined })
})

test('signals lose no batch that comes with them, and several count as one', async () => {
  const source = createTail()
  const wakeUp = new Signal()
  const stream = withHeartbeat(source.start, { ms: 60_000, wakeUp, clock: systemClock, signal })
  const batches = [{}, {}, {}]
  for (const batch of batches) {
    source.push(batch)
    wakeUp.notify()
    wakeUp.notify()
  }
  const received: unknown[] = []
  for await (const value of stream) {
    if (value !== 'signal') received.push(value)
    if (received.length === batches.length) break
  }
  expect(received).toEqual(batches)
})

test('a failure of the tail fails the stream', async () => {
  const source = createTail()
  const stream = withHeartbeat(source.start, { ms: 60_000, wakeUp: new Signal(), clock: systemClock, signal })
  source.close(new Error('gone'))
  await expect(stream.next()).rejects.toThrow('gone')
})

test('leaving the loop stops a waiting tail', async () => {
  const source = createTail()
  for await (const value of withHeartbeat(source.start, {
    ms: 10,
    wakeUp: new Signal(),
    clock: systemClock,
    signal,
  })) {
    expect(value).toBe('silence')
    break
  }
  expect(source.isStopped()).toBe(true)
})
