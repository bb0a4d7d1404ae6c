import { SandboxServerClient } from '@slipway/client'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { getAppConversation, remoteEvents } from './remote-events.ts'

vi.setConfig({ testTimeout: 60_000 })

const id = '5f0c2b1e-9a77-4c0a-9d3b-0a8f6a1f0c11'

interface ConversationStatus {
  sandbox_status: string
  execution_status: string | null
}

/** A sandbox server with one conversation, whose log grows by that many events before each look at it. */
class FakeSandboxServer {
  readonly #log: readonly object[]
  readonly #eventsPerRead: readonly number[]
  readonly status: ConversationStatus
  #reads = 0
  #visibleCount = 0

  constructor(log: readonly object[], growth: readonly number[], told: Partial<ConversationStatus> = {}) {
    this.#log = log
    this.#eventsPerRead = growth
    this.status = { sandbox_status: 'RUNNING', execution_status: 'running', ...told }
  }

  readonly client = new SandboxServerClient({
    url: 'http://far',
    fetch: async (input) => Response.json(this.#answer(new URL(String(input)))),
  })

  #answer({ pathname, searchParams }: URL): unknown {
    if (pathname.endsWith('/app-conversations')) return [{ id, ...this.status }]
    const page = Number(searchParams.get('page_id') ?? 0)
    if (page === 0) this.#visibleCount += this.#eventsPerRead[this.#reads++ % this.#eventsPerRead.length] ?? 1
    const since = searchParams.get('timestamp__gte') ?? ''
    const stamps = timestamps(this.#log)
    const items = this.#log.slice(0, this.#visibleCount).filter((_, at) => (stamps[at] ?? '') >= since)
    const next = page + 3
    return { items: items.slice(page, next), next_page_id: next < items.length ? String(next) : null }
  }
}

/** The moments of events; one that cannot be read counts as that of the event before, as servers have it. */
function timestamps(log: readonly object[]): string[] {
  let previous = ''
  return log.map((event) => {
    const own = 'timestamp' in event ? String(event.timestamp) : ''
    previous = own.startsWith('2026') ? own : previous
    return previous
  })
}

/** An event at a microsecond; several may share one. */
function event(number: number, micros: number, members: object = { kind: 'PauseEvent' }): object {
  const timestamp = `2026-01-01T00:00:00.${String(micros).padStart(6, '0')}Z`
  return { id: `e${number}`, timestamp, ...members }
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

const status = (value: string) => ({ kind: 'ConversationStateUpdateEvent', key: 'execution_status', value })

async function collectEvents(
  far: FakeSandboxServer,
  options: { after?: number; until?: 'idle'; count?: number } = {},
) {
  const stop = new AbortController()
  const found: [position: number, id: unknown][] = []
  const { count = Number.POSITIVE_INFINITY, ...rest } = options
  for await (const item of remoteEvents(far.client, id, { ...rest, signal: stop.signal, pollMs: 1 })) {
    found.push([item.position, JSON.parse(item.text).id])
    if (found.length >= count) stop.abort()
  }
  return found
}

test('however a log grows and its moments tie, each event comes once and in order', async () => {
  const steps = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 30 })
  const growth = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(steps, growth, async (gaps, grows) => {
      const log = gaps.map((_, at) => event(at + 1, sum(gaps.slice(0, at + 1))))
      const far = new FakeSandboxServer(log, [...grows, 1])
      expect(await collectEvents(far, { count: log.length })).toEqual(
        log.map((_, at) => [at + 1, `e${at + 1}`]),
      )
    }),
    { numRuns: 60 },
  )
})

test('until idle ends with the status that ends a run, and not before', async () => {
  const log = [event(1, 1, status('running')), event(2, 2), event(3, 3), event(4, 4, status('finished'))]
  const found = await collectEvents(new FakeSandboxServer(log, [1, 0, 1]), { until: 'idle' })
  expect(found.map(([, one]) => one)).toEqual(['e1', 'e2', 'e3', 'e4'])
})

test('until idle waits for what begins after the events that are passed over', async () => {
  const log = [
    event(1, 1, status('finished')),
    event(2, 2, status('running')),
    event(3, 3, status('finished')),
  ]
  expect(
    await collectEvents(new FakeSandboxServer(log, [1, 0, 0, 0, 2]), { until: 'idle', after: 1 }),
  ).toEqual([
    [2, 'e2'],
    [3, 'e3'],
  ])
})

test('until idle ends when the sandbox does not run any more, with all stored events', async () => {
  const log = [event(1, 1, status('running')), event(2, 2)]
  const paused = new FakeSandboxServer(log, [2], { sandbox_status: 'PAUSED', execution_status: null })
  expect(await collectEvents(paused, { until: 'idle' })).toHaveLength(2)
})

test('until idle ends in the end when nothing ever begins', async () => {
  expect(
    await collectEvents(new FakeSandboxServer([], [0], { execution_status: 'idle' }), { until: 'idle' }),
  ).toEqual([])
})

test('events whose moments cannot be read are given once too', async () => {
  const log = [event(1, 1), { id: 'odd', timestamp: 'zzz', kind: 'Odd' }, event(3, 2), event(4, 3)]
  const found = await collectEvents(new FakeSandboxServer(log, [2, 0, 1]), { count: 4 })
  expect(found.map(([, one]) => one)).toEqual(['e1', 'odd', 'e3', 'e4'])
})

test('a missing conversation is reported', async () => {
  const client = new SandboxServerClient({ url: 'http://far', fetch: async () => Response.json([null]) })
  await expect(getAppConversation(client, id, AbortSignal.timeout(10_000))).rejects.toThrow(
    'no such conversation',
  )
})
