import { expect, test } from 'vitest'
import { Signal, withHeartbeat } from './event-frames.ts'

/** A tail that gives what the test pushes into it. */
function createTail() {
  const given: object[] = []
  const bell = new Signal()
  let end: 'open' | 'over' | Error = 'open'
  let stopped = false
  async function* start(signal: AbortSignal): AsyncGenerator<object> {
    signal.addEventListener('abort', () => {
      stopped = true
      bell.notify()
    })
    while (!signal.aborted) {
      const next = given.shift()
      if (next !== undefined) yield next
      else if (end === 'over') return
      else if (end !== 'open') throw end
      else await bell.wait(60_000)
    }
  }
  return {
    start,
    push(value: object) {
      given.push(value)
      bell.notify()
    },
    close(how: 'over' | Error) {
      end = how
      bell.notify()
    },
    isStopped: () => stopped,
  }
}

const { signal } = new AbortController()

test('batches come as they are given, silence is told, and a ring wakes the reader', async () => {
  const source = createTail()
  const wakeUp = new Signal()
  const stream = withHeartbeat(source.start, { ms: 20, wakeUp, signal })
  const batch = {}
  source.push(batch)
  expect((await stream.next()).value).toBe(batch)
  expect((await stream.next()).value).toBe('silence')
  wakeUp.notify()
  expect((await stream.next()).value).toBe('bell')
  source.close('over')
  expect(await stream.next()).toEqual({ done: true, value: undefined })
})

test('rings do not lose a batch that comes with them, and come once for any number', async () => {
  const source = createTail()
  const wakeUp = new Signal()
  const stream = withHeartbeat(source.start, { ms: 60_000, wakeUp, signal })
  const batches = [{}, {}, {}]
  for (const batch of batches) {
    source.push(batch)
    wakeUp.notify()
    wakeUp.notify()
  }
  const seen: unknown[] = []
  for await (const value of stream) {
    if (value !== 'bell') seen.push(value)
    if (seen.length === batches.length) break
  }
  expect(seen).toEqual(batches)
})

test('a failure of the tail is a failure of the stream', async () => {
  const source = createTail()
  const stream = withHeartbeat(source.start, { ms: 60_000, wakeUp: new Signal(), signal })
  source.close(new Error('gone'))
  await expect(stream.next()).rejects.toThrow('gone')
})

test('who leaves the loop stops a tail that waits', async () => {
  const source = createTail()
  for await (const value of withHeartbeat(source.start, { ms: 10, wakeUp: new Signal(), signal })) {
    expect(value).toBe('silence')
    break
  }
  expect(source.isStopped()).toBe(true)
})
