import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Storage } from '../conversations/storage.ts'
import { conversation, imported, type Open, other, received } from '../testing/fixtures.ts'
import type { Behind } from './deliveries.ts'

const third = '2f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const pause = { kind: 'PauseEvent', source: 'user' }

function unknown(id: string): Behind {
  return { conversation: id, position: 0, updated_at: null, isRemoved: false }
}

/** What a receiver has been told: of each conversation the title and the ids of its events. */
type Known = Map<string, { title?: string | null; readonly events: string[] }>

/** Tells a receiver of one conversation that is behind, as far as `most` events; an answer that gets lost advances nothing. */
async function tell(
  storage: Storage,
  receiver: string,
  known: Known,
  behind: Behind,
  most = 2,
  isLost = false,
) {
  const { conversations, deliveries, log } = storage
  const { conversation: id, position, isRemoved } = behind
  if (isRemoved) {
    known.delete(id)
    if (!isLost) await deliveries.forget(receiver, id)
    return
  }
  const [record] = await conversations.get([id])
  if (record === undefined) throw new Error('what is behind and not removed is there')
  const mine = known.get(id) ?? { events: [] }
  known.set(id, mine)
  mine.title = record.title
  const events = await log.read(id, position, most)
  for (const event of events) {
    // What the receiver has been told before is told the same way again, and nothing is left out.
    expect(mine.events[event.position - 1] ?? event.id).toBe(event.id)
    expect(event.position).toBeLessThanOrEqual(mine.events.length + 1)
    mine.events[event.position - 1] = event.id
  }
  const to = { position: position + events.length, updated_at: record.updated_at }
  if (!isLost) await deliveries.advance(receiver, id, to)
}

async function follow(storage: Storage, receiver: string, known: Known): Promise<void> {
  for (;;) {
    const behind = await storage.deliveries.behind(receiver, 2)
    if (behind.length === 0) return
    for (const each of behind) await tell(storage, receiver, known, each)
  }
}

/** What is there to be told. */
async function truth(storage: Storage): Promise<Known> {
  const known: Known = new Map()
  const { items } = await storage.conversations.search({ limit: 100, sort_order: 'CREATED_AT' })
  for (const { id, title } of items) {
    const events = await storage.log.read(id, 0, 1_000)
    known.set(id, { title, events: events.map((event) => event.id) })
  }
  return known
}

/** What each Deliveries must keep. */
export function deliveriesContract(open: Open): void {
  test('a receiver is behind in what it was not told: events, the record, whatever changed, until it has been', async () => {
    await using opened = await open()
    const { conversations, deliveries, log } = opened.storage
    const behind = () => deliveries.behind('r', 10)
    expect(await behind()).toEqual([])
    const { record } = await conversations.create({ id: conversation })
    expect(await behind()).toEqual([unknown(conversation)])
    let updated_at = record.updated_at
    const cursor = { ...unknown(conversation), updated_at }
    await deliveries.advance('r', conversation, { position: 0, updated_at })
    expect(await behind()).toEqual([])
    await log.append(conversation, [pause, pause])
    expect(await behind()).toEqual([cursor])
    await deliveries.advance('r', conversation, { position: 2, updated_at })
    expect(await behind()).toEqual([{ ...cursor, position: 2 }])
    const changes = [
      () => conversations.patch(conversation, { title: 'T' }),
      () => conversations.patch(conversation, { tags: { a: 'b' } }),
      () => log.append(conversation, [], { record: { status: 'paused' } }),
      () => log.append(conversation, [], { record: { stats: '{}' } }),
    ]
    for (const change of changes) {
      const [before] = await conversations.get([conversation])
      updated_at = before?.updated_at ?? 0
      await deliveries.advance('r', conversation, { position: 2, updated_at })
      expect(await behind()).toEqual([])
      await change()
      expect(await behind()).toEqual([{ ...cursor, position: 2, updated_at }])
    }
    expect(await deliveries.behind('other receiver', 10)).toEqual([unknown(conversation)])
  })

  test('no change is missed because the clock stands still or goes back', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now })
    const { conversations, deliveries, log } = opened.storage
    await conversations.create({ id: conversation })
    const tellAll = async () => {
      const [record] = await conversations.get([conversation])
      const { head: position = 0, updated_at = 0 } = record ?? {}
      await deliveries.advance('r', conversation, { position, updated_at })
      expect(await deliveries.behind('r', 1)).toEqual([])
    }
    for (const time of [1_000, 1_000, 500, 2_000]) {
      now = time
      await tellAll()
      await conversations.patch(conversation, { title: String(time) })
      expect(await deliveries.behind('r', 1)).toHaveLength(1)
      await tellAll()
      await log.append(conversation, [], { record: { status: 'paused' } })
      expect(await deliveries.behind('r', 1)).toHaveLength(1)
    }
  })

  test('an import is told of when it is published, and what repeats is no change', async () => {
    await using opened = await open()
    const { conversations, deliveries, log } = opened.storage
    const session = await opened.storage.startImport(conversation)
    await session.add([received('a', 1), received('b', 2)])
    const { rings } = deliveries.changes
    expect(await deliveries.behind('r', 10)).toEqual([])
    await session.publish({ title: 'T' })
    expect(deliveries.changes.rings).toBeGreaterThan(rings)
    expect(await deliveries.behind('r', 10)).toEqual([unknown(conversation)])
    const known: Known = new Map()
    await follow(opened.storage, 'r', known)
    expect(known).toEqual(new Map([[conversation, { title: 'T', events: ['a', 'b'] }]]))
    await log.append(conversation, [received('b', 2)])
    await conversations.create({ id: conversation, title: 'other' })
    await conversations.saveSnapshot(conversation, { position: 2, text: 't' })
    expect(await deliveries.behind('r', 10)).toEqual([])
    await imported(opened.storage, [received('c', 1)])
    await follow(opened.storage, 'r', known)
    expect(known.get(conversation)?.events).toEqual(['a', 'b', 'c'])
  })

  test('a removal is told to those who knew of the conversation, also after a restart, and a new one of its id begins at 0', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now++ })
    const { conversations, deliveries, log } = opened.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause, pause, pause])
    await conversations.create({ id: other })
    expect(await deliveries.behind('handed out', 1)).toEqual([unknown(conversation)])
    await follow(opened.storage, 'told', new Map())
    const [record] = await conversations.get([conversation])
    const updated_at = record?.updated_at ?? null
    await conversations.remove(conversation)
    const gone = { conversation, position: 3, updated_at, isRemoved: true }
    expect(await deliveries.behind('told', 10)).toEqual([gone])
    expect(await deliveries.behind('late', 10)).toEqual([unknown(other)])
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause])
    const storage = await opened.reopen()
    const again = storage.deliveries
    expect(await again.behind('told', 10)).toEqual([gone])
    expect(await again.behind('handed out', 1)).toEqual([{ ...gone, position: 0, updated_at: null }])
    await again.advance('told', conversation, { position: 9, updated_at })
    expect(await again.behind('told', 10)).toEqual([{ ...gone, position: 9 }])
    await again.forget('told', conversation)
    expect(await again.behind('told', 10)).toEqual([unknown(conversation)])
    await storage.conversations.remove(conversation)
    expect(await again.behind('told', 10)).toEqual([{ ...gone, position: 0, updated_at: null }])
    await again.forget('told', conversation)
    expect(await again.behind('told', 10)).toEqual([])
    await again.advance('told', conversation, { position: 1, updated_at: 1 })
    await again.forget('told', third)
    expect(await again.behind('told', 10)).toEqual([])
    expect(await (await opened.reopen()).deliveries.behind('told', 10)).toEqual([])
  })

  test('who waits longest comes first, who was just told comes last, and nobody twice', async () => {
    let now = 1_000
    await using opened = await open({ now: () => now++ })
    const { conversations, log } = opened.storage
    const ids = [conversation, other, third]
    for (const id of ids) await conversations.create({ id })
    await log.append(conversation, [pause, pause])
    const { deliveries } = await opened.reopen()
    const behind = async (limit: number, except: string[] = []) =>
      (await deliveries.behind('r', limit, new Set(except))).map((each) => each.conversation)
    expect(await behind(10)).toEqual([other, third, conversation])
    expect([await behind(0), await behind(1), await behind(2, [other])]).toEqual([
      [],
      [other],
      [third, conversation],
    ])
    await opened.storage.log.append(other, [pause])
    expect(await behind(10)).toEqual([other, third, conversation])
    await deliveries.advance('r', other, { position: 0, updated_at: 1 })
    expect(await behind(10)).toEqual([third, conversation, other])
    expect(await behind(10, ids)).toEqual([])
  })

  test('a cursor goes back when a receiver has lost events, and not beyond what is there', async () => {
    await using opened = await open()
    const { conversations, deliveries, log } = opened.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause, pause])
    const [record] = await conversations.get([conversation])
    const updated_at = record?.updated_at ?? null
    const to = (position: number) => deliveries.advance('r', conversation, { position, updated_at })
    await to(99)
    expect(await deliveries.behind('r', 1)).toEqual([])
    await log.append(conversation, [pause])
    expect(await deliveries.behind('r', 1)).toMatchObject([{ position: 2 }])
    await to(1)
    expect(await deliveries.behind('r', 1)).toMatchObject([{ position: 1 }])
    const storage = await opened.reopen()
    expect(await storage.deliveries.behind('r', 1)).toMatchObject([{ position: 1, updated_at }])
    for (const position of [-1, 0.5, Number.NaN]) await expect(to(position)).rejects.toThrow('a cursor is')
  })

  test('the bell rings for every change, and who waits is woken by it or by its own signal', async () => {
    await using opened = await open()
    const { conversations, deliveries, log } = opened.storage
    const { changes } = deliveries
    const { signal } = new AbortController()
    const steps = [
      () => conversations.create({ id: conversation }),
      () => log.append(conversation, [pause]),
      () => conversations.patch(conversation, { title: 'T' }),
      () => imported(opened.storage, [received('a', 1)]),
      () => conversations.remove(conversation),
    ]
    for (const step of steps) {
      const { rings } = changes
      const woken = changes.since(rings, signal)
      await step()
      await woken
      expect(changes.rings).toBeGreaterThan(rings)
      await changes.since(rings, signal)
    }
    await conversations.patch(third, { title: 'nobody' })
    const controller = new AbortController()
    const waiting = changes.since(changes.rings, controller.signal)
    controller.abort()
    await waiting
  })

  storyContract(open)
}

const ids = [conversation, other, third]
const command = fc.record({
  kind: fc.constantFrom(
    'create',
    'append',
    'append',
    'patch',
    'import',
    'remove',
    'tell',
    'tell',
    'lost',
    'reopen',
  ),
  id: fc.constantFrom(...ids),
  receiver: fc.constantFrom('r', 'q'),
  count: fc.integer({ min: 1, max: 4 }),
})

function storyContract(open: Open): void {
  test('whatever happens, following what is behind until nothing is gives a receiver exactly what is there', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
        await using opened = await open()
        const receivers = new Map([
          ['r', new Map() as Known],
          ['q', new Map() as Known],
        ])
        for (const [i, { kind, id, receiver, count }] of commands.entries()) {
          const { storage } = opened
          const { conversations, deliveries, log } = storage
          const drafts = Array.from({ length: count }, () => pause)
          if (kind === 'create') await conversations.create({ id, title: `made ${i}` })
          if (kind === 'append') await log.append(id, drafts).catch(mustBeMissing)
          if (kind === 'patch') await conversations.patch(id, { title: `patched ${i}` })
          if (kind === 'import')
            await imported(
              storage,
              drafts.map((_, j) => received(`i${i}-${j}`, 1)),
              id,
            )
          if (kind === 'remove') await conversations.remove(id)
          if (kind === 'reopen') await opened.reopen()
          if (kind !== 'tell' && kind !== 'lost') continue
          for (const behind of await deliveries.behind(receiver, count))
            await tell(
              storage,
              receiver,
              receivers.get(receiver) ?? new Map(),
              behind,
              count,
              kind === 'lost',
            )
        }
        for (const [receiver, known] of receivers) {
          await follow(opened.storage, receiver, known)
          expect(known).toEqual(await truth(opened.storage))
        }
      }),
      { numRuns: 100 },
    )
  })

  test('a receiver that follows the bell has everything in the end, while others write', async () => {
    await using opened = await open()
    const { conversations, deliveries, log } = opened.storage
    const known: Known = new Map()
    const controller = new AbortController()
    const following = (async () => {
      while (!controller.signal.aborted) {
        const { rings } = deliveries.changes
        await follow(opened.storage, 'r', known)
        await deliveries.changes.since(rings, controller.signal)
      }
    })()
    const write = async (id: string) => {
      await conversations.create({ id })
      for (let i = 0; i < 60; i++) {
        await log.append(
          id,
          Array.from({ length: i % 3 }, () => pause),
          { record: { status: `s${i}` } },
        )
        if (i % 10 === 0) await conversations.patch(id, { title: `t${i}` })
      }
    }
    await Promise.all(ids.map(write))
    const expected = await truth(opened.storage)
    await expect.poll(() => known, { timeout: 20_000 }).toEqual(expected)
    controller.abort()
    await following
  })
}

function mustBeMissing(error: unknown): void {
  expect(error).toMatchObject({ code: 'not_found' })
}
