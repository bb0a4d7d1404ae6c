import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { ReceivedEvent, StoredEvent } from '../event-log/event-log.ts'
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
import type {
  ConversationQuery,
  ConversationRecord,
  ConversationRecords,
  SealedState,
  TagFilter,
} from './conversation-records.ts'
import type { ImportSession } from './import-session.ts'
import type { Storage } from './storage.ts'

/** Promises of ConversationRecords and ImportSession. */
export function recordsContract(open: OpenStorage): void {
  test('create returns an existing record, also after a restart', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now++ })
    const expected = { id: conversation, title: 'T', tags: { a: 'b' }, request: '{"x":1}' }
    const { record, created } = await fixture.storage.conversations.create(expected)
    expect(created).toBe(true)
    expect(record).toMatchObject({ ...expected, status: 'idle', head: 0 })
    const again = await fixture.storage.conversations.create({ id: conversation, title: 'other' })
    expect(again).toEqual({ record, created: false })
    const storage = await fixture.reopen()
    expect(await storage.conversations.get([otherConversation, conversation])).toEqual([undefined, record])
  })

  test('the length of stored events counts each once, also imported ones and after a restart', async () => {
    await using fixture = await open()
    const { conversations, log } = fixture.storage
    const one = receivedEvent('1', 1)
    await conversations.create({ id: otherConversation })
    await importEvents(fixture.storage, [one, receivedEvent('2', 2)])
    await log.append(otherConversation, [one, one])
    await log.append(otherConversation, [one, { kind: 'PauseEvent', source: 'user' }])
    const storedLength = async (storage: Storage, of: string) =>
      (await readAll(storage, of)).reduce((sum, { bytes }) => sum + bytes.length, 0)
    for (const reopen of [false, true]) {
      const storage = reopen ? await fixture.reopen() : fixture.storage
      const lengths = [
        await storedLength(storage, conversation),
        await storedLength(storage, otherConversation),
      ]
      expect(lengths[0]).toBeGreaterThan(0)
      expect(await storage.conversations.sumBytes([conversation])).toBe(lengths[0])
      expect(await storage.conversations.sumBytes([otherConversation])).toBe(lengths[1])
      expect(await storage.conversations.sumBytes()).toBe(Number(lengths[0]) + Number(lengths[1]))
      expect(await storage.conversations.sumBytes([id(99)])).toBe(0)
    }
  })

  test('a walk of the pages returns every conversation once, in each order, also with equal timestamps', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now })
    const { conversations, log } = fixture.storage
    for (let i = 0; i < 10; i++) {
      now += i % 3 === 0 ? 1 : 0
      await conversations.create({ id: id(i), status: i % 2 === 0 ? 'idle' : 'paused' })
    }
    now += 1
    await log.append(id(4), [{ kind: 'PauseEvent', source: 'user' }])
    const byCreation = Array.from({ length: 10 }, (_, i) => id(i))
    expect(await walkPages(fixture.storage, { sort_order: 'CREATED_AT' })).toEqual(byCreation)
    expect(await walkPages(fixture.storage, { sort_order: 'CREATED_AT_DESC' })).toEqual(
      byCreation.toReversed(),
    )
    const byUpdate = [...byCreation.filter((each) => each !== id(4)), id(4)]
    expect(await walkPages(fixture.storage, { sort_order: 'UPDATED_AT' })).toEqual(byUpdate)
    expect(await walkPages(fixture.storage, { sort_order: 'UPDATED_AT_DESC' })).toEqual(byUpdate.toReversed())
    for (const sort_order of ['CREATED_AT', 'UPDATED_AT'] as const) {
      const idle = await walkPages(fixture.storage, { sort_order, status: 'idle' })
      expect(new Set(idle)).toEqual(new Set([0, 2, 4, 6, 8].map(id)))
    }
    expect([
      await conversations.count(),
      await conversations.count({ status: 'idle' }),
      await conversations.count({ status: 'x' }),
    ]).toEqual([10, 5, 0])
  })

  test('search and count filter by all requested tags, with any text in them', async () => {
    await using fixture = await open()
    const { conversations } = fixture.storage
    const odd = `%_'"\\ä😀`
    const all: Readonly<Record<string, string>>[] = [
      {},
      { a: '1' },
      { a: '1', b: odd },
      { a: '2', b: '' },
      { key: '1', value: 'a' },
    ]
    for (const [i, tags] of all.entries())
      await conversations.create({ id: id(i), tags, status: i === 2 ? 'paused' : 'idle' })
    const found = async (tags: readonly TagFilter[], status?: string) => {
      const ids = await walkPages(fixture.storage, { sort_order: 'CREATED_AT', tags, status })
      expect(await conversations.count({ tags, status })).toBe(ids.length)
      expect(await walkPages(fixture.storage, { sort_order: 'UPDATED_AT_DESC', tags, status })).toEqual(
        ids.toReversed(),
      )
      return all.flatMap((_, i) => (ids.includes(id(i)) ? [i] : []))
    }
    expect(await found([])).toEqual([0, 1, 2, 3, 4])
    expect(await found([{ name: 'a' }])).toEqual([1, 2, 3])
    expect(await found([{ name: 'a', value: '1' }])).toEqual([1, 2])
    expect(await found([{ name: 'a', value: '1' }], 'idle')).toEqual([1])
    expect(await found([{ name: 'a' }, { name: 'b', value: odd }])).toEqual([2])
    expect(await found([{ name: 'b', value: '' }])).toEqual([3])
    expect(await found([{ name: 'key' }])).toEqual([4])
    expect(await found([{ name: 'b', value: '1' }])).toEqual([])
  })

  test('a page id is an id with or without dashes; an unknown one is refused', async () => {
    await using fixture = await open()
    const { conversations } = fixture.storage
    for (const each of [conversation, otherConversation]) await conversations.create({ id: each })
    for (const page_id of [otherConversation, otherConversation.replaceAll('-', '')]) {
      const page = await conversations.search({ limit: 5, sort_order: 'CREATED_AT', page_id })
      expect(page.items.map((record) => record.id)).toEqual([otherConversation])
    }
    const attempt = conversations.search({ limit: 5, sort_order: 'CREATED_AT', page_id: 'f'.repeat(32) })
    await expect(attempt).rejects.toMatchObject({ code: 'invalid', issues: [{ loc: ['query', 'page_id'] }] })
  })

  test('a patch changes only its members, and updated_at', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now })
    const { conversations } = fixture.storage
    const { record } = await conversations.create({ id: conversation, title: 'T', tags: { a: 'b' } })
    now = 2_000
    expect(await conversations.patch(conversation, { title: null })).toEqual({
      ...record,
      title: null,
      updated_at: 2_000,
    })
    const [, found] = await Promise.all([
      conversations.patch(conversation, { title: 'of the user' }),
      conversations.patch(conversation, { missing_title: 'found' }),
    ])
    expect(found?.title).toBe('of the user')
    await conversations.patch(conversation, { title: null })
    expect(await conversations.patch(conversation, { missing_title: 'found' })).toMatchObject({
      title: 'found',
    })
    expect(await conversations.patch(conversation, { title: null })).toMatchObject({ title: null })
    expect(await conversations.patch(conversation, { tags: {} })).toMatchObject({ title: null, tags: {} })
    expect(await conversations.patch(otherConversation, { title: 'x' })).toBeUndefined()
  })

  test('a removed conversation is hidden from every reader, and its id can be used again at once', async () => {
    await using fixture = await open()
    const { conversations, log } = fixture.storage
    const old = Array.from({ length: 1_200 }, (_, i) =>
      receivedEvent(`e${i}`, i, { kind: 'MessageEvent', text: 'old' }),
    )
    await importEvents(fixture.storage, old)
    await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(await conversations.remove(conversation)).toBe(true)
    expect(await conversations.remove(conversation)).toBe(false)
    expect(await conversations.get([conversation])).toEqual([undefined])
    expect(await conversations.count()).toBe(0)
    await expect(log.read(conversation, 0, 1)).rejects.toMatchObject({ code: 'not_found' })
    await conversations.create({ id: conversation })
    await log.append(conversation, [receivedEvent('e1', 5, { kind: 'MessageEvent', text: 'new' })])
    const page = await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(positions(page.items)).toEqual([1])
    expect(await log.count(conversation, { body: 'old' })).toBe(0)
    const storage = await fixture.reopen()
    expect(positions(await readAll(storage))).toEqual([1])
  })

  sealedStateContract(open)
  importContract(open)
}

function sealedStateContract(open: OpenStorage): void {
  test('listChildren returns the existing conversations with this parent', async () => {
    await using fixture = await open()
    const { conversations } = fixture.storage
    await conversations.create({ id: conversation })
    await conversations.create({ id: id(2), parent: conversation })
    await conversations.create({ id: otherConversation, parent: conversation })
    await conversations.create({ id: id(3), parent: otherConversation })
    const parents = [id(3), conversation, id(2), otherConversation, conversation]
    const both = [id(2), otherConversation]
    expect(await conversations.listChildren(parents)).toEqual([[], both, [], [id(3)], both])
    expect(await conversations.listChildren([])).toEqual([])
    await conversations.remove(id(2))
    const storage = await fixture.reopen()
    expect(await storage.conversations.listChildren([conversation])).toEqual([[otherConversation]])
  })

  test('sealed bytes are stored unchanged, and no record contains them', async () => {
    await using fixture = await open()
    const { conversations } = fixture.storage
    const sealed = Buffer.from(Array.from({ length: 256 }, (_, i) => i))
    const { record } = await conversations.create({ id: conversation, sealed })
    await conversations.create({ id: conversation, sealed: Buffer.from('of another try') })
    expect(Object.keys(record)).not.toContain('sealed')
    expect(record.stats).toBeNull()
    const storage = await fixture.reopen()
    expect(await storage.conversations.getSealedState(conversation)).toEqual({ sealed, snapshot: null })
    await storage.conversations.create({ id: otherConversation })
    expect(await storage.conversations.getSealedState(otherConversation)).toEqual({
      sealed: null,
      snapshot: null,
    })
    expect(await storage.conversations.getSealedState(id(1))).toBeUndefined()
  })

  test('a snapshot changes nothing else; one beyond the head or of an unknown conversation is ignored', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now })
    const { conversations, log } = fixture.storage
    const { record } = await conversations.create({ id: conversation, sealed: Buffer.from('s') })
    now = 2_000
    await conversations.saveSnapshot(conversation, { position: 0, text: '{"n":0}' })
    await conversations.saveSnapshot(conversation, { position: 1, text: 'too far' })
    await conversations.saveSnapshot(otherConversation, { position: 0, text: '' })
    expect(await conversations.get([conversation, otherConversation])).toEqual([record, undefined])
    await log.append(conversation, [{ kind: 'PauseEvent', source: 'user' }])
    await conversations.saveSnapshot(conversation, { position: 1, text: '' })
    const storage = await fixture.reopen()
    const sealedState = { sealed: Buffer.from('s'), snapshot: { position: 1, text: '' } }
    expect(await storage.conversations.getSealedState(conversation)).toEqual(sealedState)
  })

  test('sealed state is removed with its conversation, also for the next one with its id', async () => {
    await using fixture = await open()
    const { conversations } = fixture.storage
    await conversations.create({ id: conversation, sealed: Buffer.from('s') })
    await conversations.saveSnapshot(conversation, { position: 0, text: 't' })
    await conversations.remove(conversation)
    expect(await conversations.getSealedState(conversation)).toBeUndefined()
    await conversations.saveSnapshot(conversation, { position: 0, text: 'late' })
    expect(await conversations.patch(conversation, { sealed: Buffer.from('late') })).toBeUndefined()
    await conversations.create({ id: conversation })
    const storage = await fixture.reopen()
    expect(await storage.conversations.getSealedState(conversation)).toEqual({ sealed: null, snapshot: null })
  })

  test('concurrent changes: the last value of each member wins, also after a restart', async () => {
    await using fixture = await open()
    let { storage } = fixture
    const writes = fc.array(fc.tuple(fc.boolean(), fc.dictionary(changeMembers, fc.string(), { maxKeys: 4 })))
    let runs = 0
    const property = fc.asyncProperty(writes, async (steps) => {
      runs += 1
      await storage.conversations.create({ id: id(runs) })
      let expected: Readonly<Record<string, string>> = {}
      const done = steps.map(([isAppend, { snapshot, stats, ...change }]) => {
        const appended = isAppend && stats !== undefined ? { stats } : {}
        expected = { ...expected, ...change, ...appended, ...(snapshot === undefined ? {} : { snapshot }) }
        return write(storage, id(runs), { isAppend, change: { ...change, ...appended }, snapshot })
      })
      await Promise.all(done)
      expect(await storedState(storage.conversations, id(runs))).toEqual(expected)
      if (runs % 10 === 0) storage = await fixture.reopen()
      expect(await storedState(storage.conversations, id(runs))).toEqual(expected)
    })
    await fc.assert(property, { numRuns: 30 })
  })
}

const changeMembers = fc.constantFrom('request', 'sealed', 'stats', 'snapshot')

async function write(
  storage: Storage,
  id: string,
  options: {
    readonly isAppend: boolean
    readonly change: Readonly<Record<string, string>>
    readonly snapshot: string | undefined
  },
): Promise<void> {
  const { isAppend, snapshot } = options
  const { sealed, ...change } = options.change
  const all = { ...change, ...(sealed === undefined ? {} : { sealed: Buffer.from(sealed) }) }
  await Promise.all([
    isAppend ? storage.log.append(id, [], { record: all }) : storage.conversations.patch(id, all),
    snapshot === undefined
      ? undefined
      : storage.conversations.saveSnapshot(id, { position: 0, text: snapshot }),
  ])
}

/** The stored members of a conversation, without absent ones. */
async function storedState(records: ConversationRecords, id: string): Promise<Record<string, string>> {
  const [record] = await records.get([id])
  const { sealed, snapshot } = (await records.getSealedState(id)) ?? { sealed: null, snapshot: null }
  const all = {
    request: record?.request,
    stats: record?.stats,
    sealed: sealed?.toString(),
    snapshot: snapshot?.text,
  }
  return Object.fromEntries(
    Object.entries(all).flatMap(([name, text]) => (text == null ? [] : [[name, text]])),
  )
}

function importContract(open: OpenStorage): void {
  test('an import is invisible until it is published, then completely visible', async () => {
    await using fixture = await open()
    const { storage } = fixture
    const { log, conversations } = storage
    await importEvents(storage, [receivedEvent('a', 100, { kind: 'MessageEvent', text: 'hello' })])
    const before = await visibleState(storage)
    const session = await storage.startImport(conversation)
    expect([session.nextPosition, session.last?.instant]).toEqual([2, 100])
    await session.add([
      receivedEvent('b', 50, { kind: 'MessageEvent', text: 'hello' }),
      receivedEvent('c', 60),
    ])
    expect([session.nextPosition, session.last?.instant]).toEqual([4, 60])
    expect(await visibleState(storage)).toEqual(before)
    expect(await log.get(conversation, ['b'])).toEqual([undefined])
    const fromHidden = log.search(conversation, { limit: 1, sort_order: 'TIMESTAMP', page_id: 'b' })
    await expect(fromHidden).rejects.toMatchObject({ code: 'invalid' })
    await session.publish({ title: 'T', tags: { x: 'y' }, status: 'paused' })
    const page = await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(page.items.map(eventId)).toEqual(['b', 'c', 'a'])
    expect(await log.count(conversation, { body: 'HELLO' })).toBe(2)
    expect(await conversations.get([conversation])).toMatchObject([
      { title: 'T', tags: { x: 'y' }, status: 'paused', head: 3 },
    ])
  })

  test('a new conversation is invisible until it is published, and removed by an abort', async () => {
    await using fixture = await open()
    const { storage } = fixture
    const session = await storage.startImport(conversation)
    await session.add([receivedEvent('a', 1)])
    expect(await storage.conversations.get([conversation])).toEqual([undefined])
    expect(await storage.conversations.remove(conversation)).toBe(false)
    await expect(storage.log.read(conversation, 0, 1)).rejects.toMatchObject({ code: 'not_found' })
    await expect(storage.conversations.create({ id: conversation })).rejects.toMatchObject({ code: 'busy' })
    await session.abort()
    await session.abort()
    await expect(session.add([receivedEvent('b', 1)])).rejects.toMatchObject({ code: 'conflict' })
    expect(await storage.conversations.get([conversation])).toEqual([undefined])
    await importEvents(storage, [receivedEvent('z', 1)])
    expect((await readAll(storage)).map((event) => event.id)).toEqual(['z'])
  })

  test('an import refuses other writers, and an abort removes its events', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1)])
    const session = await storage.startImport(conversation)
    await session.add(Array.from({ length: 700 }, (_, i) => receivedEvent(`n${i}`, 2)))
    const refused = [
      () => storage.log.append(conversation, [receivedEvent('b', 2)]),
      () => storage.startImport(conversation),
      () => storage.conversations.remove(conversation),
    ]
    for (const attempt of refused) await expect(attempt()).rejects.toMatchObject({ code: 'busy' })
    await session.abort()
    await storage.log.append(conversation, [receivedEvent('n5', 3)])
    expect((await readAll(storage)).map((event) => event.id)).toEqual(['a', 'n5'])
  })

  test('a batch with a conflict is rejected as a whole; stored events are skipped', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1), receivedEvent('b', 2)])
    const session = await storage.startImport(conversation)
    const bad = session.add([receivedEvent('c', 3), receivedEvent('a', 1, { source: 'agent' })])
    await expect(bad).rejects.toMatchObject({ code: 'conflict' })
    await session.add([receivedEvent('a', 1), receivedEvent('d', 4), receivedEvent('b', 2)])
    expect(session.nextPosition).toBe(4)
    await session.publish({})
    expect((await readAll(storage)).map((event) => event.id)).toEqual(['a', 'b', 'd'])
  })

  test('a copy of a log up to a position has its duplicate ids and its record, and becomes visible at once', async () => {
    await using fixture = await open()
    const { storage } = fixture
    const duplicate = {
      ...receivedEvent('e3', 3),
      bytes: Buffer.from('{"n": 1,"kind":"X"}'),
      keepDuplicateId: true,
    }
    const source = Array.from({ length: 30 }, (_, i) =>
      receivedEvent(`e${i}`, i % 7, { kind: 'MessageEvent', text: `t${i}` }),
    )
    await importEvents(storage, [...source, duplicate])
    await storage.log.append(conversation, [{ kind: 'PauseEvent', source: 'user' }])
    for (const last of [0, 1, 7, 20, 32]) {
      const session = await copyEvents(storage, conversation, last, id(last))
      expect(await storage.conversations.get([id(last)])).toEqual([undefined])
      await session.publish({ title: 'T', request: '{}', stats: '1', sealed: Buffer.from('s') })
      const [record] = await storage.conversations.get([id(last)])
      expect(record).toMatchObject({ title: 'T', request: '{}', stats: '1', head: last })
      expect((await storage.conversations.getSealedState(id(last)))?.sealed).toEqual(Buffer.from('s'))
      const before = (await readAll(storage)).slice(0, last)
      expect(await readAll(storage, id(last))).toEqual(before)
      expect(await storage.log.count(id(last), { body: 'T19' })).toBe(last > 19 ? 1 : 0)
    }
  })

  test('an import into a created conversation keeps its sealed state', async () => {
    await using fixture = await open()
    const { storage } = fixture
    await importEvents(storage, [receivedEvent('a', 1), receivedEvent('b', 2)])
    const sealedState: SealedState = { sealed: Buffer.from('s'), snapshot: null }
    await storage.conversations.create({
      id: otherConversation,
      request: '{"x":1}',
      sealed: Buffer.from('s'),
    })
    const session = await copyEvents(storage, conversation, 2, otherConversation)
    await session.publish({})
    expect(await storage.conversations.get([otherConversation])).toMatchObject([
      { request: '{"x":1}', head: 2 },
    ])
    expect(await storage.conversations.getSealedState(otherConversation)).toEqual(sealedState)
    expect((await readAll(storage, otherConversation)).map((event) => event.id)).toEqual(['a', 'b'])
  })

  test('changes of one turn are applied in order, also around the publication of an import', async () => {
    await using fixture = await open()
    const { conversations, log } = fixture.storage
    await conversations.create({ id: conversation })
    await Promise.all([
      log.append(conversation, [receivedEvent('a', 1)], { record: { request: '1', status: 'running' } }),
      conversations.patch(conversation, { request: '2' }),
    ])
    const session = await fixture.storage.startImport(conversation)
    await session.add([receivedEvent('b', 2)])
    await Promise.all([
      conversations.patch(conversation, { title: 'before', tags: { a: 'b' } }),
      session.publish({ title: 'published' }),
      conversations.patch(conversation, { request: '3' }),
      log.append(conversation, [receivedEvent('c', 3)]).catch(() => undefined),
    ])
    const record = { title: 'published', tags: { a: 'b' }, status: 'running', request: '3', head: 2 }
    expect(await conversations.get([conversation])).toMatchObject([record])
    expect(await (await fixture.reopen()).conversations.get([conversation])).toMatchObject([record])
  })

  test('an unfinished import is removed after the next open', async () => {
    await using fixture = await open()
    await importEvents(fixture.storage, [receivedEvent('a', 1)])
    for (const id of [conversation, otherConversation]) {
      const session = await fixture.storage.startImport(id)
      await session.add(Array.from({ length: 600 }, (_, i) => receivedEvent(`n${i}`, 2)))
    }
    const storage = await fixture.reopen()
    expect((await readAll(storage)).map((event) => event.id)).toEqual(['a'])
    expect(await storage.conversations.get([otherConversation])).toEqual([undefined])
    await expect.poll(() => canAppend(storage)).toBe(true)
    expect((await readAll(storage)).map((event) => event.id)).toEqual(['a', 'n5'])
    await importEvents(storage, [receivedEvent('z', 1)], otherConversation)
    expect((await readAll(storage, otherConversation)).map((event) => event.id)).toEqual(['z'])
  })
}

/** A stored event as a received one. */
function toReceived(event: StoredEvent): ReceivedEvent {
  const { kind, source = 'user' } = JSON.parse(event.bytes.toString())
  return { ...event, kind, source, keepDuplicateId: true }
}

async function copyEvents(storage: Storage, from: string, last: number, to: string): Promise<ImportSession> {
  const session = await storage.startImport(to)
  for (let position = 0; position < last; ) {
    const events = await storage.log.read(from, position, Math.min(7, last - position))
    position = events.at(-1)?.position ?? last
    await session.add(events.map(toReceived))
  }
  return session
}

async function canAppend(storage: Storage): Promise<boolean> {
  try {
    await storage.log.append(conversation, [receivedEvent('n5', 3)])
    return true
  } catch {
    return false
  }
}

async function visibleState(storage: Storage) {
  const { log, conversations } = storage
  return {
    record: await conversations.get([conversation]),
    events: await readAll(storage),
    page: await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP_DESC' }),
    messages: await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP', kind: 'MessageEvent' }),
    count: await log.count(conversation, { kind: 'MessageEvent', body: 'hello' }),
  }
}

async function walkPages(storage: Storage, query: Omit<ConversationQuery, 'limit'>): Promise<string[]> {
  const records: ConversationRecord[] = []
  let page = await storage.conversations.search({ ...query, limit: 3 })
  for (;;) {
    records.push(...page.items)
    if (page.next_page_id === null) return records.map((record) => record.id)
    page = await storage.conversations.search({ ...query, limit: 3, page_id: page.next_page_id })
  }
}

function id(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}
