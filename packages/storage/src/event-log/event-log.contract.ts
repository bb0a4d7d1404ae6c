import { compareMoments, formatInstant, leafEventIdKey } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Storage } from '../conversations/storage.ts'
import {
  conversation,
  eventId,
  importEvents,
  type OpenStorage,
  otherConversation,
  positions,
  readAll,
  receivedEvent,
} from '../testing/fixtures.ts'
import type { EventPage, EventQuery, PagedEvent, ReceivedEvent } from './event-log.ts'

const start = Date.UTC(2026, 0, 1) * 1000
const ascending = { limit: 100, sort_order: 'TIMESTAMP' } as const

/** Promises of EventLog. */
export function eventLogContract(open: OpenStorage): void {
  appendContract(open)
  searchContract(open)
  tailContract(open)
  pageIdContract(open)
  leafContract(open)
}

function appendContract(open: OpenStorage): void {
  test('positions are 1..n without gap under concurrent appends', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await conversations.create({ id: otherConversation })
    const appends = Array.from({ length: 60 }, (_, i) =>
      log.append(i % 3 === 0 ? otherConversation : conversation, [draft(i), draft(i)].slice(i % 2)),
    )
    await Promise.all(appends)
    for (const id of [conversation, otherConversation]) {
      const events = await readAll(fixture.storage, id)
      expect(positions(events)).toEqual(events.map((_, i) => i + 1))
      const [record] = await conversations.get([id])
      expect(record?.head).toBe(events.length)
    }
  })

  test('drafts get an id and increasing timestamps, also when the clock stands still or goes back', async () => {
    const clock = [start, start, start - 5_000_000, start + 10, start + 10]
    await using fixture = await open({ now: () => clock[0] ?? start })
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    for (let i = 0; i < 5; i++) {
      await log.append(conversation, [draft(i), draft(i)])
      clock.shift()
    }
    const events = await readAll(fixture.storage)
    const parsed = events.map((event) => JSON.parse(event.bytes.toString()))
    for (const [i, event] of events.entries()) {
      expect(event.instant).toBeGreaterThan(events[i - 1]?.instant ?? 0)
      expect(parsed[i].timestamp).toBe(formatInstant(event.instant))
      expect(parsed[i].id).toBe(event.id)
      expect(event.id).toMatch(/^[0-9a-f-]{36}$/)
    }
  })

  test('an event after one in the future gets a later timestamp, and a warning is logged once', async () => {
    const lines: string[] = []
    await using fixture = await open({
      now: () => start,
      log: (level, message) => lines.push(`${level} ${message}`),
    })
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [receivedEvent('far', start + 3_600_000_000)])
    await log.append(conversation, [draft(1)])
    await log.append(conversation, [draft(2)])
    const events = await readAll(fixture.storage)
    expect(events.map((event) => event.instant - start - 3_600_000_000)).toEqual([0, 1, 2])
    expect(lines.filter((line) => line.startsWith('warn'))).toHaveLength(1)
  })

  test('an event appended twice is stored once and returned twice', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    const [first] = await log.append(conversation, [{ ...draft(1), id: 'mine' }])
    const [again, next] = await log.append(conversation, [
      { ...draft(1), id: 'mine' },
      receivedEvent('r', start),
    ])
    const [twice] = await log.append(conversation, [receivedEvent('r', start)], { after: 0 })
    expect([again, twice]).toEqual([first, next])
    expect(await readAll(fixture.storage)).toHaveLength(2)
  })

  test('the same id with other content is a conflict, also within one append, which is rolled back', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [receivedEvent('r', start), { ...draft(1), id: 'mine' }])
    const attempts = [
      [receivedEvent('new', start), receivedEvent('r', start, { source: 'agent' })],
      [draft(3), { ...draft(2), id: 'mine' }],
      [receivedEvent('twice', start), receivedEvent('twice', start, { source: 'agent' })],
    ]
    const good = log.append(conversation, [receivedEvent('good', start)])
    for (const attempt of attempts) {
      await expect(log.append(conversation, attempt)).rejects.toMatchObject({ code: 'conflict' })
    }
    await good
    expect((await readAll(fixture.storage)).map((event) => event.id)).toEqual(['r', 'mine', 'good'])
  })

  test('an append with `after` requires that the log ends there', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    const outcomes = await Promise.allSettled(
      [0, 0, 1, 1].map((after) => log.append(conversation, [draft(after)], { after })),
    )
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected'])
    expect(outcomes[1]).toMatchObject({ reason: { code: 'conflict' } })
    expect(await readAll(fixture.storage)).toHaveLength(2)
  })

  test('append changes the status, with or without events', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [draft(1)], { record: { status: 'running' } })
    expect(await conversations.get([conversation])).toMatchObject([{ status: 'running', head: 1 }])
    await log.append(conversation, [], { record: { status: 'paused' } })
    await expect(
      log.append(conversation, [draft(1)], { after: 0, record: { status: 'error' } }),
    ).rejects.toThrow()
    const stale = log.append(conversation, [], { after: 0, record: { status: 'error' } })
    await expect(stale).rejects.toMatchObject({ code: 'conflict' })
    expect(await conversations.get([conversation])).toMatchObject([{ status: 'paused', head: 1 }])
  })

  test('append changes the record and the events in one transaction', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation, request: 'r0', sealed: Buffer.from('s0') })
    const record = { status: 'running', stats: '{"a":1}', request: 'r1', sealed: Buffer.from('s1') }
    await log.append(conversation, [draft(1)], { after: 0, record })
    const refused = { status: 'error', stats: '{}', request: 'r2', sealed: Buffer.from('s2') }
    const attempts = [
      () => log.append(conversation, [draft(2)], { after: 0, record: refused }),
      () => log.append(conversation, [], { after: 0, record: refused }),
      () =>
        log.append(conversation, [receivedEvent('x', start), receivedEvent('x', 1, { source: 'agent' })], {
          record: refused,
        }),
    ]
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: 'conflict' })
    const storage = await fixture.reopen()
    const [stored] = await storage.conversations.get([conversation])
    expect(stored).toMatchObject({ status: 'running', stats: '{"a":1}', request: 'r1', head: 1 })
    expect((await storage.conversations.getSealedState(conversation))?.sealed).toEqual(Buffer.from('s1'))
  })

  test('append without events changes only the named members of the record', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation, request: 'r0', sealed: Buffer.from('s0') })
    await log.append(conversation, [draft(1)], { record: { stats: '1' } })
    expect(await log.append(conversation, [], { after: 1, record: { request: 'r1' } })).toEqual([])
    await Promise.all([
      log.append(conversation, [], { record: { status: 'paused' } }),
      log.append(conversation, [draft(2)]),
      log.append(conversation, [], { record: { sealed: Buffer.alloc(0) } }),
    ])
    const [stored] = await conversations.get([conversation])
    expect(stored).toMatchObject({ status: 'paused', stats: '1', request: 'r1', head: 2 })
    expect(await conversations.getSealedState(conversation)).toEqual({
      sealed: Buffer.alloc(0),
      snapshot: null,
    })
  })

  test('a repeated append changes no record', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [receivedEvent('r', start)], { record: { stats: '1' } })
    await log.append(conversation, [receivedEvent('r', start)], { record: { stats: '2', request: 'r' } })
    expect(await conversations.get([conversation])).toMatchObject([{ stats: '1', request: null, head: 1 }])
  })

  test('every method rejects with not_found for an unknown conversation', async () => {
    await using fixture = await open()
    const { log } = fixture.storage
    const attempts = [
      () => log.append(conversation, [draft(1)]),
      () => log.read(conversation, 0, 1),
      () => log.search(conversation, ascending),
      () => log.count(conversation, {}),
      () => log.get(conversation, ['x']),
      () => log.tail(conversation, 0, AbortSignal.timeout(1000))[Symbol.asyncIterator]().next(),
    ]
    for (const attempt of attempts) await expect(attempt()).rejects.toMatchObject({ code: 'not_found' })
  })

  test('received bytes are stored unchanged, with any id', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    const ids = ['a', 'á\u0301', "'; DROP", '%_"\\', 'p1_AAAAAQ', ' ']
    const events = ids.map((id, i) => ({
      ...receivedEvent(id, start),
      bytes: Buffer.from(`{ "n" : ${i}.0,\t"kind":"X" }`),
    }))
    await log.append(conversation, events)
    const storage = await fixture.reopen()
    const stored = await storage.log.get(conversation, [...ids, 'unknown'])
    expect(stored.map((event) => event?.bytes.toString())).toEqual([
      ...events.map(({ bytes }) => bytes.toString()),
      undefined,
    ])
    expect(stored.slice(0, -1).map((event) => event?.id)).toEqual(ids)
  })

  test('events with a duplicate id keep it and are stored once each; get finds the first', async () => {
    await using fixture = await open()
    const duplicates = [1, 2, 3].map((n) => ({
      ...receivedEvent('same', start),
      bytes: Buffer.from(`{"n":${n}}`),
      keepDuplicateId: true,
    }))
    await importEvents(fixture.storage, duplicates)
    await importEvents(fixture.storage, [...duplicates].reverse())
    const events = await readAll(fixture.storage)
    expect(events.map((event) => [event.id, event.bytes.toString()])).toEqual(
      [1, 2, 3].map((n) => ['same', `{"n":${n}}`]),
    )
    const [first] = await fixture.storage.log.get(conversation, ['same'])
    expect(first?.position).toBe(1)
  })

  test('read stops at its limit and at maxBytes, with at least one event', async () => {
    await using fixture = await open()
    const { log } = fixture.storage
    await importEvents(
      fixture.storage,
      Array.from({ length: 20 }, (_, i) => receivedEvent(`e${i}`, start)),
    )
    const sizeBytes = receivedEvent('e1', start).bytes.length
    expect(positions(await log.read(conversation, 3, 4))).toEqual([4, 5, 6, 7])
    expect(positions(await log.read(conversation, 3, 10, 1))).toEqual([4])
    expect(positions(await log.read(conversation, 3, 10, sizeBytes + 1))).toEqual([4, 5])
    expect(await log.read(conversation, 20, 10)).toEqual([])
    expect(positions(await log.read(conversation, 18, 10))).toEqual([19, 20])
  })
}

function searchContract(open: OpenStorage): void {
  test('a walk of the pages is the filtered log in order of (instant, position), both ways, and counts agree', async () => {
    await using fixture = await open()
    let run = 0
    await fc.assert(
      fc.asyncProperty(logs, filters, fc.integer({ min: 1, max: 9 }), async (events, filter, limit) => {
        const id = uuid(++run)
        await importEvents(fixture.storage, events, id)
        const expected = expectedPositions(events, filter)
        expect(
          positions(await walk(fixture.storage, id, { ...filter, limit, sort_order: 'TIMESTAMP' })),
        ).toEqual(expected)
        const descending = await walk(fixture.storage, id, { ...filter, limit, sort_order: 'TIMESTAMP_DESC' })
        expect(positions(descending)).toEqual(expected.reverse())
        expect(await fixture.storage.log.count(id, filter)).toBe(expected.length)
      }),
      { numRuns: 60 },
    )
  })

  test('a walk returns each event that was there when it began, once, during appends', async () => {
    await using fixture = await open()
    const { storage } = fixture
    let run = 1_000
    await fc.assert(
      fc.asyncProperty(
        logs,
        logs,
        fc.boolean(),
        fc.integer({ min: 1, max: 5 }),
        async (before, during, isDown, limit) => {
          const id = uuid(++run)
          await importEvents(storage, before, id)
          const query = { limit, sort_order: isDown ? 'TIMESTAMP_DESC' : 'TIMESTAMP' } as const
          const late = during.map((event, i) => ({ ...event, id: `late${i}` }))
          const visited = positions(
            await walk(storage, id, query, () => storage.log.append(id, late.splice(0, 2))),
          )
          expect(new Set(visited).size).toBe(visited.length)
          for (let position = 1; position <= before.length; position++) expect(visited).toContain(position)
        },
      ),
      { numRuns: 40 },
    )
  })

  test('an append invalidates the cached pages that it belongs to', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [receivedEvent('a', 10), receivedEvent('b', 20), receivedEvent('c', 30)])
    const twice = async (sort_order: EventQuery['sort_order']) => {
      await log.search(conversation, { limit: 2, sort_order })
      return await log.search(conversation, { limit: 2, sort_order })
    }
    const first = await twice('TIMESTAMP')
    const newest = await twice('TIMESTAMP_DESC')
    await log.append(conversation, [receivedEvent('d', 40)])
    expect(await log.search(conversation, { limit: 2, sort_order: 'TIMESTAMP' })).toEqual(first)
    expect(ids(await log.search(conversation, { limit: 2, sort_order: 'TIMESTAMP_DESC' }))).toEqual([
      'd',
      'c',
    ])
    await log.append(conversation, [receivedEvent('past', 15)])
    expect(ids(await log.search(conversation, { limit: 2, sort_order: 'TIMESTAMP' }))).toEqual(['a', 'past'])
    expect(ids(newest)).toEqual(['c', 'b'])
  })

  test('a kind filter accepts longer spellings, and an unknown kind or source matches nothing', async () => {
    await using fixture = await open()
    const { log } = fixture.storage
    await importEvents(fixture.storage, [
      receivedEvent('m', 1, { kind: 'MessageEvent', text: 'hello' }),
      receivedEvent('p', 2),
    ])
    for (const kind of [
      'MessageEvent',
      'a.b.event:MessageEvent-Output__1',
      'a/MessageEvent',
      'a__MessageEvent__2',
    ]) {
      expect(ids(await log.search(conversation, { ...ascending, kind }))).toEqual(['m'])
    }
    for (const filter of [
      { kind: 'messageevent' },
      { kind: 'Nothing' },
      { source: 'unknown' },
      { kind: '', source: 'x' },
    ]) {
      expect(await log.search(conversation, { ...ascending, ...filter })).toEqual({
        items: [],
        next_page_id: null,
      })
      expect(await log.count(conversation, filter)).toBe(0)
    }
    expect(ids(await log.search(conversation, { ...ascending, kind: 'PauseEvent', body: 'hello' }))).toEqual(
      [],
    )
    expect(await log.count(conversation, { kind: 'PauseEvent', body: 'hello' })).toBe(0)
  })
}

function leafContract(open: OpenStorage): void {
  test('leaf updates are found by key, appended or received, also after a restart, and match other filters', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    const update = (key: string) => ({
      kind: 'ConversationStateUpdateEvent',
      source: 'environment',
      key,
      value: 'm',
    })
    await importEvents(fixture.storage, [
      receivedEvent('m', 1, { kind: 'MessageEvent', text: 'hello' }),
      { ...receivedEvent('l1', 2, { kind: 'ConversationStateUpdateEvent' }), key: leafEventIdKey },
      { ...receivedEvent('p', 3), key: leafEventIdKey },
    ])
    const query = { ...ascending, key: leafEventIdKey } as const
    expect(ids(await log.search(conversation, query))).toEqual(['l1'])
    // A transaction that fails takes back what it has learnt.
    await expect(
      log.append(conversation, [
        { id: 'x', ...update(leafEventIdKey) },
        { id: 'x', ...update('other') },
      ]),
    ).rejects.toMatchObject({ code: 'conflict' })
    await log.append(conversation, [
      { id: 'l2', ...update(leafEventIdKey) },
      { id: 'o', ...update('other') },
    ])
    await conversations.create({ id: otherConversation })
    await log.append(otherConversation, [{ id: 'l3', ...update(leafEventIdKey) }])
    const storage = await fixture.reopen()
    await storage.log.append(conversation, [{ id: 'l4', ...update(leafEventIdKey) }])
    expect(ids(await storage.log.search(conversation, query))).toEqual(['l1', 'l2', 'l4'])
    expect(ids(await storage.log.search(conversation, { ...query, limit: 2 }))).toEqual(['l1', 'l2'])
    expect(ids(await storage.log.search(otherConversation, query))).toEqual(['l3'])
    const kind = 'ConversationStateUpdateEvent'
    expect(ids(await storage.log.search(conversation, { ...ascending, kind }))).toEqual([
      'l1',
      'l2',
      'o',
      'l4',
    ])
    expect(await storage.log.count(conversation, { source: 'environment', kind })).toBe(3)
  })
}

function pageIdContract(open: OpenStorage): void {
  test('page ids are valid after a restart', async () => {
    await using fixture = await open()
    await importEvents(
      fixture.storage,
      Array.from({ length: 10 }, (_, i) => receivedEvent(`e${i}`, start + (i % 3))),
    )
    const query = { limit: 4, sort_order: 'TIMESTAMP' } as const
    const first = await fixture.storage.log.search(conversation, query)
    const second = await fixture.storage.log.search(conversation, nextQuery(query, first))
    const storage = await fixture.reopen()
    expect(await storage.log.search(conversation, query)).toEqual(first)
    expect(await storage.log.search(conversation, nextQuery(query, first))).toEqual(second)
  })

  test('an event id is a page id', async () => {
    await using fixture = await open()
    await importEvents(fixture.storage, [
      receivedEvent('a', 30),
      receivedEvent('b', 10),
      receivedEvent('c', 20),
      receivedEvent('d', 40),
    ])
    const { log } = fixture.storage
    expect(ids(await log.search(conversation, { ...ascending, page_id: 'c' }))).toEqual(['c', 'a', 'd'])
    expect(
      ids(await log.search(conversation, { ...ascending, sort_order: 'TIMESTAMP_DESC', page_id: 'c' })),
    ).toEqual(['c', 'b'])
  })

  test('a page id of another conversation or a forged one is an issue of the query, one of another history a conflict', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await importEvents(
      fixture.storage,
      Array.from({ length: 5 }, (_, i) => receivedEvent(`a${i}`, i)),
      conversation,
    )
    await importEvents(
      fixture.storage,
      Array.from({ length: 5 }, (_, i) => receivedEvent(`a${i}`, i)),
      otherConversation,
    )
    const page = await log.search(conversation, { limit: 2, sort_order: 'TIMESTAMP' })
    const foreign = page.next_page_id ?? ''
    const broken = [
      `${foreign.slice(0, -1)}${foreign.endsWith('A') ? 'B' : 'A'}`,
      'p1_',
      'unknown',
      'p1_AAAAAAAAAAAAAAAA',
      'p2_AAAAAAAAAAAAAAAAAAAA',
    ]
    for (const page_id of [foreign, ...broken]) {
      const attempt = log.search(otherConversation, { ...ascending, page_id })
      await expect(attempt).rejects.toMatchObject({
        code: 'invalid',
        issues: [{ loc: ['query', 'page_id'] }],
      })
    }
    await conversations.remove(conversation)
    await importEvents(
      fixture.storage,
      [receivedEvent('new', 1), receivedEvent('newer', 2), receivedEvent('newest', 3)],
      conversation,
    )
    await expect(log.search(conversation, { ...ascending, page_id: foreign })).rejects.toMatchObject({
      code: 'conflict',
      members: { code: 'resync', after: 0, head: 3 },
    })
  })
}

function tailContract(open: OpenStorage): void {
  test('a tail started at any time yields each event after its position once, in order', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    const stop = new AbortController()
    const total = 600
    const readers: Promise<number[]>[] = []
    for (let i = 0; i < total; i += 3) {
      if (i % 30 === 0) readers.push(collect(fixture.storage, Math.max(0, i - 20), total, stop.signal))
      void log.append(conversation, [draft(i), draft(i)])
      await log.append(conversation, [draft(i)])
      if (i % 50 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
    }
    const events = await Promise.all(readers)
    for (const [index, positions] of events.entries()) {
      const after = Math.max(0, index * 30 - 20)
      expect(positions).toEqual(Array.from({ length: total - after }, (_, i) => after + 1 + i))
    }
    stop.abort()
  })

  test('a tail continues over an import, in batches of bounded size', async () => {
    await using fixture = await open()
    await fixture.storage.conversations.create({ id: conversation })
    await fixture.storage.log.append(conversation, [draft(1)])
    const reader = collect(fixture.storage, 0, 401, new AbortController().signal)
    const big = Array.from({ length: 400 }, (_, i) =>
      receivedEvent(`i${i}`, start + i, { kind: 'MessageEvent', text: 'x'.repeat(2_000) }),
    )
    await importEvents(fixture.storage, big)
    expect(await reader).toEqual(Array.from({ length: 401 }, (_, i) => i + 1))
    const [batch] = await first(fixture.storage.log.tail(conversation, 0, new AbortController().signal))
    const sizeBytes = (batch ?? []).reduce((sum, event) => sum + event.bytes.length, 0)
    expect(sizeBytes).toBeGreaterThan(200_000)
    expect(sizeBytes).toBeLessThan(300_000)
  })

  test('a tail ends when its signal aborts and when the conversation is removed', async () => {
    await using fixture = await open()
    const { log, conversations } = fixture.storage
    await conversations.create({ id: conversation })
    const stop = new AbortController()
    const aborted = collect(fixture.storage, 0, Infinity, stop.signal)
    const events: number[] = []
    const deleted = collect(fixture.storage, 0, Infinity, new AbortController().signal, events)
    await log.append(conversation, [draft(1)])
    await expect.poll(() => events).toEqual([1])
    stop.abort()
    expect(await aborted).toEqual([1])
    await conversations.remove(conversation)
    await conversations.create({ id: conversation })
    await log.append(conversation, [draft(2)])
    expect(await deleted).toEqual([1])
    expect(await collect(fixture.storage, 0, Infinity, AbortSignal.abort())).toEqual([])
  })
}

async function collect(
  storage: Storage,
  after: number,
  last: number,
  signal: AbortSignal,
  collected: number[] = [],
): Promise<number[]> {
  for await (const batch of storage.log.tail(conversation, after, signal)) {
    for (const event of batch) collected.push(event.position)
    if (collected.at(-1) === last) break
  }
  return collected
}

async function first<T>(batches: AsyncIterable<T>): Promise<[T] | []> {
  for await (const batch of batches) return [batch]
  return []
}

function draft(n: number) {
  return { kind: 'ConversationStateUpdateEvent', source: 'environment', key: 'n', value: n }
}

function ids(page: EventPage): string[] {
  return page.items.map(eventId)
}

function nextQuery(query: EventQuery, page: EventPage): EventQuery {
  return { ...query, page_id: page.next_page_id ?? 'none' }
}

function uuid(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}

async function walk(
  storage: Storage,
  id: string,
  query: EventQuery,
  between?: () => Promise<unknown>,
): Promise<PagedEvent[]> {
  const visited: PagedEvent[] = []
  let page = await storage.log.search(id, query)
  for (;;) {
    visited.push(...page.items)
    if (page.next_page_id === null) return visited
    expect(page.items).toHaveLength(query.limit)
    await between?.()
    page = await storage.log.search(id, { ...query, page_id: page.next_page_id })
  }
}

const kinds = ['MessageEvent', 'ActionEvent', 'PauseEvent']
const sources = ['user', 'agent']

/** Logs with equal and unordered instants, sometimes in order. */
const logs = fc
  .tuple(fc.boolean(), fc.array(fc.tuple(fc.nat(12), fc.nat(2), fc.nat(1)), { maxLength: 30 }))
  .map(([isSorted, rows]) => {
    const ordered = isSorted ? rows.toSorted(([a], [b]) => a - b) : rows
    return ordered.map(([instant, kind, source], i) =>
      receivedEvent(`e${i}`, instant, {
        kind: kinds[kind] ?? '',
        source: sources[source] ?? '',
        text: `text ${i % 4}`,
      }),
    )
  })

const filters = fc.record(
  {
    kind: fc.constantFrom(...kinds),
    source: fc.constantFrom(...sources),
    body: fc.constantFrom('text', 'T 3', '2'),
    timestamp__gte: fc.nat(12),
    timestamp__lt: fc.nat(13),
  },
  { requiredKeys: [] },
)

/** Positions that match a filter, in order of (instant, position). */
function expectedPositions(events: readonly ReceivedEvent[], filter: Partial<EventQuery>): number[] {
  const { kind, source, body, timestamp__gte = -Infinity, timestamp__lt = Infinity } = filter
  return events
    .map((event, i) => ({ ...event, position: i + 1, text: `text ${i % 4}` }))
    .filter((event) => kind === undefined || event.kind === kind)
    .filter((event) => source === undefined || event.source === source)
    .filter(
      (event) =>
        body === undefined || (event.kind === 'MessageEvent' && event.text.includes(body.toLowerCase())),
    )
    .filter((event) => compareMoments(event, timestamp__gte) >= 0 && compareMoments(event, timestamp__lt) < 0)
    .sort((a, b) => a.instant - b.instant || a.position - b.position)
    .map(({ position }) => position)
}
