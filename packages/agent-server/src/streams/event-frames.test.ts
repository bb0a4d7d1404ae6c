import { expect, test } from 'vitest'
import { Bell, withBeats } from './event-frames.ts'

/** A tail that gives what the test pushes into it. */
function tail() {
  const given: object[] = []
  const bell = new Bell()
  let end: 'open' | 'over' | Error = 'open'
  let stopped = false
  async function* start(signal: AbortSignal): AsyncGenerator<object> {
    signal.addEventListener('abort', () => {
      stopped = true
      bell.ring()
    })
    while (!signal.aborted) {
      const next = given.shift()
      if (next !== undefined) yield next
      else if (end === 'over') return
      else if (end !== 'open') throw end
      else await bell.heard(60_000)
    }
  }
  return {
    start,
    push(value: object) {
      given.push(value)
      bell.ring()
    },
    close(how: 'over' | Error) {
      end = how
      bell.ring()
    },
    isStopped: () => stopped,
  }
}

const { signal } = new AbortController()

test('batches come as they are given, silence is told, and a ring wakes the reader', async () => {
  const source = tail()
  const bell = new Bell()
  const stream = withBeats(source.start, { ms: 20, bell, signal })
  const batch = {}
  source.push(batch)
  expect((await stream.next()).value).toBe(batch)
  expect((await stream.next()).value).toBe('silence')
  bell.ring()
  expect((await stream.next()).value).toBe('bell')
  source.close('over')
  expect(await stream.next()).toEqual({ done: true, value: undefined })
})

test('rings do not lose a batch that comes with them, and come once for any number', async () => {
  const source = tail()
  const bell = new Bell()
  const stream = withBeats(source.start, { ms: 60_000, bell, signal })
  const batches = [{}, {}, {}]
  for (const batch of batches) {
    source.push(batch)
    bell.ring()
    bell.ring()
  }
  const seen: unknown[] = []
  for await (const value of stream) {
    if (value !== 'bell') seen.push(value)
    if (seen.length === batches.length) break
  }
  expect(seen).toEqual(batches)
})

test('a failure of the tail is a failure of the stream', async () => {
  const source = tail()
  const stream = withBeats(source.start, { ms: 60_000, bell: new Bell(), signal })
  source.close(new Error('gone'))
  await expect(stream.next()).rejects.toThrow('gone')
})

test('who leaves the loop stops a tail that waits', async () => {
  const source = tail()
  for await (const value of withBeats(source.start, { ms: 10, bell: new Bell(), signal })) {
    expect(value).toBe('silence')
    break
  }
  expect(source.isStopped()).toBe(true)
})
