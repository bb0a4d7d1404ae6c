import { parseMoment } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Storage } from '../conversations/storage.ts'
import { conversation, importEvents, type OpenStorage, positions } from '../testing/fixtures.ts'
import { Timelines } from '../timeline/timelines.ts'
import type { EventQuery, PagedEvent, ReceivedEvent } from './event-log.ts'
import { toReceivedEvent } from './received-event.ts'

/** A time as a text, and as picoseconds since 1970. */
interface Time {
  readonly text: string
  readonly picos: bigint
}

/** Also of the bounds of what is stored as microseconds. */
const seconds = [
  ...['0001-01-01T00:00:00', '0987-06-05T11:00:59', '1684-10-18T23:59:59', '1684-10-19T16:00:00'],
  ...['1969-12-31T23:59:59', '1970-01-01T00:00:00', '2026-03-01T10:00:00', '2255-03-14T16:00:00'],
  ...['2255-03-15T00:00:00', '4600-02-28T23:59:59', '7003-09-17T08:09:10', '9999-12-31T23:59:59'],
].map((text) => Date.parse(`${text}Z`))

/** Fractions with equal beginnings, and any of up to twelve digits. */
const fractions = fc.oneof(
  { arbitrary: fc.stringMatching(/^(000000|049999|123456)[019]{0,6}$/), weight: 3 },
  { arbitrary: fc.stringMatching(/^\d{0,12}$/), weight: 1 },
)
const offsets = fc.option(fc.tuple(fc.constantFrom(-1, 1), fc.nat(23), fc.constantFrom(0, 1, 30, 59)))

/** Times in few seconds of the years 0001 to 9999, in any time zone. */
function timesIn(some: readonly number[]): fc.Arbitrary<Time> {
  return fc.tuple(fc.constantFrom(...some), fractions, offsets).map(([ms, fraction, offset]) => {
    const [sign, hours, minutes] = offset ?? [1, 0, 0]
    const pad = (number: number) => String(number).padStart(2, '0')
    const local = new Date(ms + sign * (hours * 60 + minutes) * 60_000).toISOString().slice(0, -5)
    const hasZone = offset !== null && /^(?!0000)\d{4}-/.test(local)
    const zone = hasZone ? `${sign < 0 ? '-' : '+'}${pad(hours)}:${pad(minutes)}` : 'Z'
    const time = hasZone ? local : new Date(ms).toISOString().slice(0, -5)
    const picos = BigInt(ms) * 1_000_000_000n + BigInt(fraction.padEnd(12, '0'))
    return { text: `${time}${fraction && `.${fraction}`}${zone}`, picos }
  })
}

const kinds = fc.constantFrom('MessageEvent', 'PauseEvent')

/** A log of times that are near each other, and bounds among them. */
const cases = fc.array(fc.constantFrom(...seconds), { minLength: 1, maxLength: 3 }).chain((some) => {
  const times = timesIn(some)
  return fc.record({
    log: fc.array(fc.tuple(times, kinds), { maxLength: 25 }),
    filter: fc.record(
      { kind: kinds, body: fc.constantFrom('NEEDLE', 'text 1'), from: times, before: times },
      { requiredKeys: [] },
    ),
    limit: fc.integer({ min: 1, max: 6 }),
  })
})

/** Order and bounds of searches are those of the timestamps, to the last digit that was sent. */
export function momentsContract(open: OpenStorage): void {
  test('order and bounds are exact to the last digit, in the years 0001 to 9999', async () => {
    await using fixture = await open()
    let run = 0
    await fc.assert(
      fc.asyncProperty(cases, async ({ log, filter, limit }) => {
        const id = `00000000-0000-4000-8000-${String(++run).padStart(12, '0')}`
        const { storage } = fixture
        await importEvents(storage, log.map(toEvent), id)
        const { kind, body, from, before } = filter
        const query = {
          ...{ kind, body, limit },
          timestamp__gte: from && parseMoment(from.text),
          timestamp__lt: before && parseMoment(before.text),
        }
        const expected = log
          .map(([{ picos }, kind], at) => ({ picos, kind, text: `needle text ${at % 3}`, position: at + 1 }))
          .filter((event) => kind === undefined || event.kind === kind)
          .filter((event) => {
            const isMatch = event.kind === 'MessageEvent' && event.text.includes(body?.toLowerCase() ?? '')
            return body === undefined || isMatch
          })
          .filter(({ picos }) => from === undefined || picos >= from.picos)
          .filter(({ picos }) => before === undefined || picos < before.picos)
        const inOrder = positions(
          expected.toSorted((a, b) => Number(a.picos > b.picos) - Number(a.picos < b.picos)),
        )
        expect(await walk(storage, id, { ...query, sort_order: 'TIMESTAMP' })).toEqual(inOrder)
        expect(await walk(storage, id, { ...query, sort_order: 'TIMESTAMP_DESC' })).toEqual(
          inOrder.toReversed(),
        )
        expect(await storage.log.count(id, query)).toBe(inOrder.length)
        if (body !== undefined) return
        const [record] = await storage.conversations.get([id])
        const find = { ...query, limit: 100, from: 1, direction: 'next', failed: false } as const
        const found = record && (await new Timelines(storage.log, { budgetMs: 60_000 }).find(record, find))
        expect(found?.positions).toEqual(positions(expected))
      }),
      { numRuns: 150 },
    )
  })

  test('events after finer and far ones, and an imported one without a time, follow them', async () => {
    await using fixture = await open({ now: () => 0 })
    const { storage } = fixture
    const last = await importLines(storage, [
      '{"id":"a","kind":"PauseEvent","timestamp":"2026-03-01T10:00:00.0000019Z"}',
      '{"id":"b","kind":"PauseEvent","timestamp":"yesterday"}',
    ])
    expect(last).toMatchObject({ finer: '9' })
    await storage.log.append(conversation, [{ id: 'c', kind: 'PauseEvent', source: 'user' }])
    await importLines(storage, ['{"id":"d","kind":"PauseEvent","timestamp":"9999-12-31T23:59:58.99Z"}'])
    const [first, second] = [
      { id: 'e', kind: 'PauseEvent', source: 'user' },
      { id: 'f', kind: 'PauseEvent', source: 'user' },
    ]
    const events = await storage.log.append(conversation, [first, second])
    expect(events.map(({ bytes }) => JSON.parse(bytes.toString()).timestamp)).toEqual([
      '9999-12-31T23:59:59.000000Z',
      '9999-12-31T23:59:59.050000Z',
    ])
    const ascending = { limit: 10, sort_order: 'TIMESTAMP' } as const
    expect(await walk(storage, conversation, ascending)).toEqual([1, 2, 3, 4, 5, 6])
    await fixture.reopen()
    expect(await walk(fixture.storage, conversation, { ...ascending, limit: 1 })).toEqual([1, 2, 3, 4, 5, 6])
  })
}

/** Returns the moment of the last event. */
async function importLines(storage: Storage, lines: readonly string[]) {
  const session = await storage.startImport(conversation)
  for (const line of lines) {
    const options = { keep: true, last: session.last, now: 0 }
    await session.add([toReceivedEvent(Buffer.from(line), JSON.parse(line), options)])
  }
  const { last } = session
  await session.publish({})
  return last
}

function toEvent([{ text }, kind]: readonly [Time, string], at: number): ReceivedEvent {
  const llm_message = { role: 'user', content: [{ type: 'text', text: `Needle text ${at % 3}` }] }
  const event = {
    id: `e${at}`,
    timestamp: text,
    kind,
    source: 'user',
    ...(kind === 'MessageEvent' && { llm_message }),
  }
  return toReceivedEvent(Buffer.from(JSON.stringify(event)), event, { keep: true, last: undefined, now: 0 })
}

async function walk(storage: Storage, id: string, query: EventQuery): Promise<(number | undefined)[]> {
  const visited: PagedEvent[] = []
  for (let page_id: string | undefined; ; ) {
    const page = await storage.log.search(id, { ...query, page_id })
    visited.push(...page.items)
    if (page.next_page_id === null) return positions(visited)
    page_id = page.next_page_id
  }
}
