import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { type EventLog, openStorage } from '@slipway/storage'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { type Deliver, LiveEvents } from './live-events.ts'

const id = '11111111-2222-4333-8444-555555555555'
const draft = { kind: 'MessageEvent', source: 'user', llm_message: { role: 'user', content: [] } } as const

/** With `delays`, tails deliver some of their batches a turn later than others. */
async function openLog(delays: readonly boolean[] = [false]) {
  const directory = await mkdtemp(join(tmpdir(), 'live-'))
  const storage = await openStorage({ directory, log: () => {} })
  await storage.conversations.create({ id })
  let batches = 0
  const tail: EventLog['tail'] = async function* (...args) {
    for await (const batch of storage.log.tail(...args)) {
      if (delays[batches++ % delays.length]) await setImmediate()
      yield batch
    }
  }
  return {
    storage,
    live: new LiveEvents({ tail }),
    append: (count: number) =>
      storage.log.append(
        id,
        Array.from({ length: count }, () => draft),
      ),
    async [Symbol.asyncDispose]() {
      await storage[Symbol.asyncDispose]()
      await rm(directory, { recursive: true })
    },
  }
}

/** Collects positions; needs time for a batch when `isBusy` says so. */
function collector(isBusy: () => boolean) {
  const positions: number[] = []
  const deliver: Deliver = (batch) => {
    positions.push(...batch.map(({ position }) => position))
    return isBusy() ? setImmediate() : undefined
  }
  return { positions, deliver }
}

const range = (first: number, last: number) => Array.from({ length: last - first + 1 }, (_, at) => first + at)

test('followers that join anywhere, fast or slow, get every event once and in order', async () => {
  const step = fc.oneof(
    fc.record({ do: fc.constant('append' as const), count: fc.integer({ min: 1, max: 5 }) }),
    fc.record({
      do: fc.constant('join' as const),
      behind: fc.nat(6),
      busy: fc.array(fc.boolean(), { minLength: 1 }),
    }),
    fc.record({ do: fc.constant('leave' as const), which: fc.nat(5) }),
    fc.record({ do: fc.constant('turn' as const) }),
  )
  const delays = fc.array(fc.boolean(), { minLength: 1 })
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 30 }), delays, async (steps, delays) => {
      await using log = await openLog(delays)
      let head = 0
      const followers: { after: number; positions: number[]; stop: AbortController; end: Promise<void> }[] =
        []
      const appends: Promise<unknown>[] = []
      for (const step of steps) {
        if (step.do === 'append') {
          head += step.count
          appends.push(log.append(step.count))
        } else if (step.do === 'join') {
          await Promise.all(appends)
          let turn = 0
          const { positions, deliver } = collector(() => step.busy[turn++ % step.busy.length] ?? false)
          const stop = new AbortController()
          const after = Math.max(0, head - step.behind)
          const end = log.live.follow(id, { after, head, signal: stop.signal }, deliver)
          followers.push({ after, positions, stop, end })
        } else if (step.do === 'leave') followers[step.which]?.stop.abort()
        else await setImmediate()
      }
      await Promise.all(appends)
      for (const { after, positions, stop, end } of followers) {
        if (!stop.signal.aborted) await vi.waitFor(() => expect(positions.at(-1) ?? after).toBe(head), 10_000)
        stop.abort()
        await end
        expect(positions).toEqual(range(after + 1, after + positions.length))
      }
    }),
    { numRuns: 40 },
  )
})

test('the end of a conversation ends its followers, and one of the same id starts again', async () => {
  await using log = await openLog()
  const { signal } = new AbortController()
  const first = collector(() => false)
  const end = log.live.follow(id, { after: 0, head: 0, signal }, first.deliver)
  await log.append(2)
  await vi.waitFor(() => expect(first.positions).toEqual([1, 2]), 10_000)
  await log.storage.conversations.remove(id)
  await end
  await log.storage.conversations.create({ id })
  const stop = new AbortController()
  const second = collector(() => false)
  const again = log.live.follow(id, { after: 0, head: 0, signal: stop.signal }, second.deliver)
  await log.append(1)
  await vi.waitFor(() => expect(second.positions).toEqual([1]), 10_000)
  stop.abort()
  await again
})

test('a delivery that fails ends its follower alone', async () => {
  await using log = await openLog()
  const stop = new AbortController()
  const other = collector(() => false)
  const failing = log.live.follow(id, { after: 0, head: 0, signal: stop.signal }, () => {
    throw new Error('no room')
  })
  const following = log.live.follow(id, { after: 0, head: 0, signal: stop.signal }, other.deliver)
  await Promise.all([log.append(1), expect(failing).rejects.toThrow('no room')])
  await log.append(1)
  await vi.waitFor(() => expect(other.positions).toEqual([1, 2]), 10_000)
  stop.abort()
  await following
})
