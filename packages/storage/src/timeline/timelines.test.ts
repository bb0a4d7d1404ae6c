import { must } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, onTestFinished, test } from 'vitest'
import type { ReceivedEvent } from '../event-log/event-log.ts'
import { openStorage } from '../sqlite/storage.ts'
import { conversation, importEvents } from '../testing/fixtures.ts'
import { temporaryDirectory } from '../testing/temporary-directory.ts'
import { readRange } from './read-range.ts'
import { type FindQuery, Timelines } from './timelines.ts'

const start = Date.UTC(2026, 0, 1) * 1000
const second = 1_000_000

interface Entry {
  readonly kind: string
  readonly source: string
  readonly tool?: string
  readonly failed?: boolean
  readonly instant: number
}

function toEvent({ kind, source, tool, failed, instant }: Entry, index: number): ReceivedEvent {
  const id = `event-${index}`
  const observation = {
    kind: 'X',
    is_error: failed === true,
    text: '\\"is_error\\":true "tool_name":"terminal"',
  }
  const members = {
    id,
    timestamp: new Date(instant / 1000).toISOString(),
    source,
    tool_name: tool,
    observation,
    kind,
  }
  return { bytes: Buffer.from(JSON.stringify(members)), id, instant, kind, source }
}

async function openLog(entries: readonly Entry[]) {
  const directory = temporaryDirectory()
  const storage = await openStorage({ directory: directory.path })
  onTestFinished(async () => {
    await storage[Symbol.asyncDispose]()
    directory[Symbol.dispose]()
  })
  await storage.conversations.create({ id: conversation })
  await importEvents(storage, entries.map(toEvent))
  const [record] = await storage.conversations.get([conversation])
  return { storage, record: must(record, 'the record') }
}

const entry = fc.record({
  kind: fc.constantFrom('ActionEvent', 'ObservationEvent', 'AgentErrorEvent', 'PauseEvent'),
  source: fc.constantFrom('agent', 'environment'),
  tool: fc.constantFrom('terminal', 'file_editor'),
  failed: fc.boolean(),
  gap: fc.integer({ min: 0, max: 5 }),
})

const isFailed = ({ kind, failed }: Entry) => kind === 'AgentErrorEvent' || failed === true

function entriesOf(
  items: readonly { kind: string; source: string; tool: string; failed: boolean; gap: number }[],
) {
  let instant = start
  return items.map(({ gap, ...rest }): Entry => {
    instant += gap * second
    return { ...rest, instant }
  })
}

test('an overview and a find are what a look at every event gives, however little time each request has', async () => {
  const [items = []] = fc.sample(fc.array(entry, { minLength: 300, maxLength: 400, size: 'max' }), 1)
  const entries = entriesOf(items)
  const { storage, record } = await openLog(entries)
  const property = fc.asyncProperty(
    fc.integer({ min: 1, max: 50 }),
    fc.record({
      from: fc.integer({ min: 1, max: 420 }),
      direction: fc.constantFrom('next' as const, 'previous' as const),
      limit: fc.integer({ min: 1, max: 100 }),
      failed: fc.boolean(),
      tool: fc.constantFrom('terminal', undefined),
      kind: fc.constantFrom('ObservationEvent', 'x.y.ActionEvent', undefined),
      source: fc.constantFrom('agent', undefined),
      timestamp__gte: fc.constantFrom(start + 100 * second, undefined),
    }),
    async (buckets, query) => {
      const timelines = new Timelines(storage.log, { budgetMs: 0 })
      let overview = await timelines.overview(record, buckets)
      for (let rounds = 0; overview.covered < overview.head && rounds < 50; rounds++)
        overview = await timelines.overview(record, buckets)
      expect(overview.covered).toBe(entries.length)
      for (const { first, last, kinds, failed, gap_seconds, started_at } of overview.buckets) {
        const inside = entries.slice(first - 1, last)
        expect(failed).toBe(inside.filter(isFailed).length)
        expect(kinds).toEqual(
          Object.fromEntries(
            Object.entries(Object.groupBy(inside, ({ kind }) => kind)).map(([kind, list]) => [
              kind,
              list?.length,
            ]),
          ),
        )
        expect(Date.parse(started_at) * 1000).toBe(inside[0]?.instant)
        const gaps = inside.map(({ instant }, i) => instant - (entries[first - 2 + i]?.instant ?? instant))
        expect(gap_seconds * second).toBeCloseTo(Math.max(...gaps))
      }
      expect(overview.buckets.length).toBeLessThanOrEqual(buckets)
      expect(overview.buckets.map(({ first }) => first)).toEqual(
        overview.buckets.map((_, i) => i * overview.bucket_size + 1),
      )
      const expected = entries.flatMap((one, i) => {
        const kind = query.kind?.split('.').at(-1)
        const isMatch =
          (kind === undefined || one.kind === kind) &&
          (query.source === undefined || one.source === query.source) &&
          (query.tool === undefined || one.tool === query.tool) &&
          (!query.failed || isFailed(one)) &&
          one.instant >= (query.timestamp__gte ?? 0)
        return isMatch ? [i + 1] : []
      })
      const wanted =
        query.direction === 'next'
          ? expected.filter((position) => position >= query.from)
          : expected.filter((position) => position <= query.from).toReversed()
      expect(await findAll(new Timelines(storage.log, { budgetMs: 0 }), record, query)).toEqual(wanted)
      expect(await findAll(timelines, record, query)).toEqual(wanted)
    },
  )
  await fc.assert(property, { numRuns: 25 })
})

/** Continues until nothing more matches. */
async function findAll(
  timelines: Timelines,
  record: Parameters<Timelines['find']>[0],
  query: FindQuery,
): Promise<number[]> {
  const positions: number[] = []
  for (let from: number | null = query.from, rounds = 0; from !== null && rounds < 1_000; rounds++) {
    const found: Awaited<ReturnType<Timelines['find']>> = await timelines.find(record, { ...query, from })
    expect(found.positions.length).toBeLessThanOrEqual(query.limit)
    positions.push(...found.positions)
    from = found.next_from
  }
  return positions
}

test('a log that grows is counted further, across chunks', async () => {
  const many = Array.from({ length: 5_000 }, (_, i) => ({
    ...{ kind: 'ActionEvent', source: 'agent', tool: 'terminal' },
    ...{ failed: i % 1_000 === 999, instant: start + i * second },
  }))
  const { storage, record } = await openLog(many)
  const timelines = new Timelines(storage.log, { budgetMs: 60_000 })
  expect(await timelines.overview(record, 10)).toMatchObject({
    head: 5_000,
    covered: 5_000,
    bucket_size: 500,
  })
  const last = { ...must(many.at(-1), 'the last'), instant: start + 6_000 * second, failed: true }
  await storage.log.append(conversation, [toEvent(last, 5_000)])
  const grown = { ...record, head: 5_001 }
  const { buckets } = await timelines.overview(grown, 10)
  expect(buckets.map(({ failed }) => failed).reduce((sum, one) => sum + one, 0)).toBe(6)
  expect(buckets.at(-1)?.gap_seconds).toBe(1_001)
  const query = { from: 5_001, direction: 'previous', failed: true, limit: 100 } as const
  expect((await timelines.find(grown, query)).positions).toEqual([5_001, 5_000, 4_000, 3_000, 2_000, 1_000])
})

test('ranges begin at a position or a moment and stay below their limit', async () => {
  const many = Array.from({ length: 300 }, (_, i) => ({
    ...{ kind: 'PauseEvent', source: 'user', instant: start + i * second },
  }))
  const { storage, record } = await openLog(many)
  const read = async (query: Parameters<typeof readRange>[2]) =>
    JSON.parse((await readRange(storage.log, record, query)).toString())
  const ids = ({ items }: { items: { id: string }[] }) => items.map(({ id }) => id)
  expect(ids(await read({ first: 299, limit: 100 }))).toEqual(['event-298', 'event-299'])
  expect(await read({ first: 301, limit: 100 })).toEqual({ first: 301, head: 300, items: [] })
  expect(await read({ at: start + 100 * second - 1, limit: 1 })).toMatchObject({ first: 101, head: 300 })
  expect(await read({ at: start + 999 * second, limit: 1 })).toEqual({ first: 301, head: 300, items: [] })
  expect(await read({ limit: 2 })).toMatchObject({ first: 1 })
  await expect(read({ first: 1, at: start, limit: 1 })).rejects.toMatchObject({ code: 'invalid' })
})
