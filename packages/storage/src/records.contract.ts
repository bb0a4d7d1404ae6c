import { expect, test } from 'vitest'
import type { ConversationQuery, ConversationRecord } from './records.ts'
import {
  conversation,
  everything,
  idOf,
  imported,
  type Open,
  other,
  positions,
  received,
} from './storage.contract.ts'
import type { Storage } from './storage.ts'

/** What each Records and each import must keep. */
export function recordsContract(open: Open): void {
  test('a record is created once, answered again, and kept over a restart', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now++ })
    const wanted = { id: conversation, title: 'T', tags: { a: 'b' }, request: '{"x":1}' }
    const { record, created } = await opened.storage.conversations.create(wanted)
    expect(created).toBe(true)
    expect(record).toMatchObject({ ...wanted, status: 'idle', head: 0 })
    const again = await opened.storage.conversations.create({ id: conversation, title: 'other' })
    expect(again).toEqual({ record, created: false })
    const storage = await opened.reopen()
    expect(await storage.conversations.get([other, conversation])).toEqual([undefined, record])
  })

  test('a walk over pages has every conversation once, in each order, also when moments are equal', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now })
    const { conversations, log } = opened.storage
    for (let i = 0; i < 10; i++) {
      now += i % 3 === 0 ? 1 : 0
      await conversations.create({ id: id(i), status: i % 2 === 0 ? 'idle' : 'paused' })
    }
    now += 1
    await log.append(id(4), [{ kind: 'PauseEvent', source: 'user' }])
    const byCreation = Array.from({ length: 10 }, (_, i) => id(i))
    expect(await walk(opened.storage, { sort_order: 'CREATED_AT' })).toEqual(byCreation)
    expect(await walk(opened.storage, { sort_order: 'CREATED_AT_DESC' })).toEqual(byCreation.toReversed())
    const byUpdate = [...byCreation.filter((each) => each !== id(4)), id(4)]
    expect(await walk(opened.storage, { sort_order: 'UPDATED_AT' })).toEqual(byUpdate)
    expect(await walk(opened.storage, { sort_order: 'UPDATED_AT_DESC' })).toEqual(byUpdate.toReversed())
    for (const sort_order of ['CREATED_AT', 'UPDATED_AT'] as const) {
      const idle = await walk(opened.storage, { sort_order, status: 'idle' })
      expect(new Set(idle)).toEqual(new Set([0, 2, 4, 6, 8].map(id)))
    }
    expect([
      await conversations.count(),
      await conversations.count('idle'),
      await conversations.count('x'),
    ]).toEqual([10, 5, 0])
  })

  test('a page of conversations begins at an id with or without dashes; an unknown one is refused', async () => {
    await using opened = await open()
    const { conversations } = opened.storage
    for (const each of [conversation, other]) await conversations.create({ id: each })
    for (const page_id of [other, other.replaceAll('-', '')]) {
      const page = await conversations.search({ limit: 5, sort_order: 'CREATED_AT', page_id })
      expect(page.items.map((record) => record.id)).toEqual([other])
    }
    const attempt = conversations.search({ limit: 5, sort_order: 'CREATED_AT', page_id: 'f'.repeat(32) })
    await expect(attempt).rejects.toMatchObject({ code: 'invalid', faults: [{ loc: ['query', 'page_id'] }] })
  })

  test('a patch changes what it names and moves updated_at', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now })
    const { conversations } = opened.storage
    const { record } = await conversations.create({ id: conversation, title: 'T', tags: { a: 'b' } })
    now = 2_000
    expect(await conversations.patch(conversation, { title: null })).toEqual({
      ...record,
      title: null,
      updated_at: 2_000,
    })
    expect(await conversations.patch(conversation, { tags: {} })).toMatchObject({ title: null, tags: {} })
    expect(await conversations.patch(other, { title: 'x' })).toBeUndefined()
  })

  test('a deleted conversation is gone for every reader, and its id can be used again at once', async () => {
    await using opened = await open()
    const { conversations, log } = opened.storage
    const old = Array.from({ length: 1_200 }, (_, i) =>
      received(`e${i}`, i, { kind: 'MessageEvent', text: 'old' }),
    )
    await imported(opened.storage, old)
    await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(await conversations.remove(conversation)).toBe(true)
    expect(await conversations.remove(conversation)).toBe(false)
    expect(await conversations.get([conversation])).toEqual([undefined])
    expect(await conversations.count()).toBe(0)
    await expect(log.read(conversation, 0, 1)).rejects.toMatchObject({ code: 'not_found' })
    await conversations.create({ id: conversation })
    await log.append(conversation, [received('e1', 5, { kind: 'MessageEvent', text: 'new' })])
    const page = await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(positions(page.items)).toEqual([1])
    expect(await log.count(conversation, { body: 'old' })).toBe(0)
    const storage = await opened.reopen()
    expect(positions(await everything(storage))).toEqual([1])
  })

  importContract(open)
}

function importContract(open: Open): void {
  test('nothing of an import is seen before it is published, and all of it after', async () => {
    await using opened = await open()
    const { storage } = opened
    const { log, conversations } = storage
    await imported(storage, [received('a', 100, { kind: 'MessageEvent', text: 'hello' })])
    const before = await seen(storage)
    const session = await storage.startImport(conversation)
    expect([session.next, session.lastInstant]).toEqual([2, 100])
    await session.add([received('b', 50, { kind: 'MessageEvent', text: 'hello' }), received('c', 60)])
    expect([session.next, session.lastInstant]).toEqual([4, 60])
    expect(await seen(storage)).toEqual(before)
    expect(await log.get(conversation, ['b'])).toEqual([undefined])
    const fromHidden = log.search(conversation, { limit: 1, sort_order: 'TIMESTAMP', page_id: 'b' })
    await expect(fromHidden).rejects.toMatchObject({ code: 'invalid' })
    await session.publish({ title: 'T', tags: { x: 'y' }, status: 'paused' })
    const page = await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP' })
    expect(page.items.map(idOf)).toEqual(['b', 'c', 'a'])
    expect(await log.count(conversation, { body: 'HELLO' })).toBe(2)
    expect(await conversations.get([conversation])).toMatchObject([
      { title: 'T', tags: { x: 'y' }, status: 'paused', head: 3 },
    ])
  })

  test('a new conversation is invisible until it is published, and gone after an abort', async () => {
    await using opened = await open()
    const { storage } = opened
    const session = await storage.startImport(conversation)
    await session.add([received('a', 1)])
    expect(await storage.conversations.get([conversation])).toEqual([undefined])
    expect(await storage.conversations.remove(conversation)).toBe(false)
    await expect(storage.log.read(conversation, 0, 1)).rejects.toMatchObject({ code: 'not_found' })
    await expect(storage.conversations.create({ id: conversation })).rejects.toMatchObject({ code: 'busy' })
    await session.abort()
    await session.abort()
    await expect(session.add([received('b', 1)])).rejects.toMatchObject({ code: 'conflict' })
    expect(await storage.conversations.get([conversation])).toEqual([undefined])
    await imported(storage, [received('z', 1)])
    expect((await everything(storage)).map((event) => event.id)).toEqual(['z'])
  })

  test('while an import is under way other writers are refused, and nothing stays after an abort', async () => {
    await using opened = await open()
    const { storage } = opened
    await imported(storage, [received('a', 1)])
    const session = await storage.startImport(conversation)
    await session.add(Array.from({ length: 700 }, (_, i) => received(`n${i}`, 2)))
    const refused = [
      () => storage.log.append(conversation, [received('b', 2)]),
      () => storage.startImport(conversation),
      () => storage.conversations.remove(conversation),
    ]
    for (const attempt of refused) await expect(attempt()).rejects.toMatchObject({ code: 'busy' })
    await session.abort()
    await storage.log.append(conversation, [received('n5', 3)])
    expect((await everything(storage)).map((event) => event.id)).toEqual(['a', 'n5'])
  })

  test('a batch with a conflict is refused as a whole; events that are there already are passed over', async () => {
    await using opened = await open()
    const { storage } = opened
    await imported(storage, [received('a', 1), received('b', 2)])
    const session = await storage.startImport(conversation)
    const bad = session.add([received('c', 3), received('a', 1, { source: 'agent' })])
    await expect(bad).rejects.toMatchObject({ code: 'conflict' })
    await session.add([received('a', 1), received('d', 4), received('b', 2)])
    expect(session.next).toBe(4)
    await session.publish({})
    expect((await everything(storage)).map((event) => event.id)).toEqual(['a', 'b', 'd'])
  })

  test('an import that was cut off leaves nothing after the next open', async () => {
    await using opened = await open()
    await imported(opened.storage, [received('a', 1)])
    for (const id of [conversation, other]) {
      const session = await opened.storage.startImport(id)
      await session.add(Array.from({ length: 600 }, (_, i) => received(`n${i}`, 2)))
    }
    const storage = await opened.reopen()
    expect((await everything(storage)).map((event) => event.id)).toEqual(['a'])
    expect(await storage.conversations.get([other])).toEqual([undefined])
    await expect.poll(() => appended(storage)).toBe(true)
    expect((await everything(storage)).map((event) => event.id)).toEqual(['a', 'n5'])
    await imported(storage, [received('z', 1)], other)
    expect((await everything(storage, other)).map((event) => event.id)).toEqual(['z'])
  })
}

async function appended(storage: Storage): Promise<boolean> {
  try {
    await storage.log.append(conversation, [received('n5', 3)])
    return true
  } catch {
    return false
  }
}

async function seen(storage: Storage) {
  const { log, conversations } = storage
  return {
    record: await conversations.get([conversation]),
    events: await everything(storage),
    page: await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP_DESC' }),
    messages: await log.search(conversation, { limit: 10, sort_order: 'TIMESTAMP', kind: 'MessageEvent' }),
    count: await log.count(conversation, { kind: 'MessageEvent', body: 'hello' }),
  }
}

async function walk(storage: Storage, query: Omit<ConversationQuery, 'limit'>): Promise<string[]> {
  const seen: ConversationRecord[] = []
  let page = await storage.conversations.search({ ...query, limit: 3 })
  for (;;) {
    seen.push(...page.items)
    if (page.next_page_id === null) return seen.map((record) => record.id)
    page = await storage.conversations.search({ ...query, limit: 3, page_id: page.next_page_id })
  }
}

function id(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, '0')}`
}
