import { Waiter } from '@slipway/shared/async'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Storage } from '../conversations/storage.ts'
import {
  conversation,
  importEvents,
  type OpenStorage,
  otherConversation,
  receivedEvent,
} from '../testing/fixtures.ts'
import type { PendingDelivery } from './deliveries.ts'

const third = '2f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
const pause = { kind: 'PauseEvent', source: 'user' }

function unknownDelivery(id: string): PendingDelivery {
  return { conversation: id, position: 0, updated_at: null, isRemoved: false }
}

/** What a receiver has: the title and the event ids of each conversation. */
type ReceiverState = Map<string, { title?: string | null; readonly events: string[] }>

/** Delivers at most `most` events of a pending conversation; a lost response advances nothing. */
async function deliver(
  storage: Storage,
  receiver: string,
  received: ReceiverState,
  pending: PendingDelivery,
  most = 2,
  isLost = false,
) {
  const { conversations, deliveries, log } = storage
  const { conversation: id, position, isRemoved } = pending
  if (isRemoved) {
    received.delete(id)
    if (!isLost) await deliveries.forget(receiver, id)
    return
  }
  const [record] = await conversations.get([id])
  if (record === undefined) throw new Error('a pending conversation that is not removed exists')
  const receiverState = received.get(id) ?? { events: [] }
  received.set(id, receiverState)
  receiverState.title = record.title
  const events = await log.read(id, position, most)
  for (const event of events) {
    // Repeated events are the same as before, and none is missing.
    expect(receiverState.events[event.position - 1] ?? event.id).toBe(event.id)
    expect(event.position).toBeLessThanOrEqual(receiverState.events.length + 1)
    receiverState.events[event.position - 1] = event.id
  }
  const to = { position: position + events.length, updated_at: record.updated_at }
  if (!isLost) await deliveries.advance(receiver, id, to)
}

async function deliverAll(storage: Storage, receiver: string, received: ReceiverState): Promise<void> {
  for (;;) {
    const pending = await storage.deliveries.listPending(receiver, 2)
    if (pending.length === 0) return
    for (const each of pending) await deliver(storage, receiver, received, each)
  }
}

/** What a receiver should have. */
async function expectedState(storage: Storage): Promise<ReceiverState> {
  const expected: ReceiverState = new Map()
  const { items } = await storage.conversations.search({ limit: 100, sort_order: 'CREATED_AT' })
  for (const { id, title } of items) {
    const events = await storage.log.read(id, 0, 1_000)
    expected.set(id, { title, events: events.map((event) => event.id) })
  }
  return expected
}

/** Promises of Deliveries. */
export function deliveriesContract(open: OpenStorage): void {
  test('a conversation is pending until the receiver has its events and its record', async () => {
    await using fixture = await open()
    const { conversations, deliveries, log } = fixture.storage
    const behind = () => deliveries.listPending('r', 10)
    expect(await behind()).toEqual([])
    const { record } = await conversations.create({ id: conversation })
    expect(await behind()).toEqual([unknownDelivery(conversation)])
    let updated_at = record.updated_at
    const cursor = { ...unknownDelivery(conversation), updated_at }
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
    expect(await deliveries.listPending('other receiver', 10)).toEqual([unknownDelivery(conversation)])
  })

  test('no change is missed when the clock stands still or goes back', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now })
    const { conversations, deliveries, log } = fixture.storage
    await conversations.create({ id: conversation })
    const tellAll = async () => {
      const [record] = await conversations.get([conversation])
      const { head: position = 0, updated_at = 0 } = record ?? {}
      await deliveries.advance('r', conversation, { position, updated_at })
      expect(await deliveries.listPending('r', 1)).toEqual([])
    }
    for (const time of [1_000, 1_000, 500, 2_000]) {
      now = time
      await tellAll()
      await conversations.patch(conversation, { title: String(time) })
      expect(await deliveries.listPending('r', 1)).toHaveLength(1)
      await tellAll()
      await log.append(conversation, [], { record: { status: 'paused' } })
      expect(await deliveries.listPending('r', 1)).toHaveLength(1)
    }
  })

  test('an import is pending once published, and a repeated call is no change', async () => {
    await using fixture = await open()
    const { conversations, deliveries, log } = fixture.storage
    const session = await fixture.storage.startImport(conversation)
    await session.add([receivedEvent('a', 1), receivedEvent('b', 2)])
    const { version } = deliveries.changeSignal
    expect(await deliveries.listPending('r', 10)).toEqual([])
    await session.publish({ title: 'T' })
    expect(deliveries.changeSignal.version).toBeGreaterThan(version)
    expect(await deliveries.listPending('r', 10)).toEqual([unknownDelivery(conversation)])
    const known: ReceiverState = new Map()
    await deliverAll(fixture.storage, 'r', known)
    expect(known).toEqual(new Map([[conversation, { title: 'T', events: ['a', 'b'] }]]))
    await log.append(conversation, [receivedEvent('b', 2)])
    await conversations.create({ id: conversation, title: 'other' })
    await conversations.saveSnapshot(conversation, { position: 2, text: 't' })
    expect(await deliveries.listPending('r', 10)).toEqual([])
    await importEvents(fixture.storage, [receivedEvent('c', 1)])
    await deliverAll(fixture.storage, 'r', known)
    expect(known.get(conversation)?.events).toEqual(['a', 'b', 'c'])
  })

  test('a removal is pending for receivers with a cursor, also after a restart, and a new conversation with its id starts at 0', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now++ })
    const { conversations, deliveries, log } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause, pause, pause])
    await conversations.create({ id: otherConversation })
    expect(await deliveries.listPending('handed out', 1)).toEqual([unknownDelivery(conversation)])
    await deliverAll(fixture.storage, 'known', new Map())
    const [record] = await conversations.get([conversation])
    const updated_at = record?.updated_at ?? null
    await conversations.remove(conversation)
    const gone = { conversation, position: 3, updated_at, isRemoved: true }
    expect(await deliveries.listPending('known', 10)).toEqual([gone])
    expect(await deliveries.listPending('late', 10)).toEqual([unknownDelivery(otherConversation)])
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause])
    const storage = await fixture.reopen()
    const again = storage.deliveries
    expect(await again.listPending('known', 10)).toEqual([gone])
    expect(await again.listPending('handed out', 1)).toEqual([{ ...gone, position: 0, updated_at: null }])
    await again.advance('known', conversation, { position: 9, updated_at })
    expect(await again.listPending('known', 10)).toEqual([{ ...gone, position: 9 }])
    await again.forget('known', conversation)
    expect(await again.listPending('known', 10)).toEqual([unknownDelivery(conversation)])
    await storage.conversations.remove(conversation)
    expect(await again.listPending('known', 10)).toEqual([{ ...gone, position: 0, updated_at: null }])
    await again.forget('known', conversation)
    expect(await again.listPending('known', 10)).toEqual([])
    await again.advance('known', conversation, { position: 1, updated_at: 1 })
    await again.forget('known', third)
    expect(await again.listPending('known', 10)).toEqual([])
    expect(await (await fixture.reopen()).deliveries.listPending('known', 10)).toEqual([])
  })

  test('listPending returns the longest waiting conversation first, the last advanced one last, and none twice', async () => {
    let now = 1_000
    await using fixture = await open({ now: () => now++ })
    const { conversations, log } = fixture.storage
    const ids = [conversation, otherConversation, third]
    for (const id of ids) await conversations.create({ id })
    await log.append(conversation, [pause, pause])
    const { deliveries } = await fixture.reopen()
    const behind = async (limit: number, except: string[] = []) =>
      (await deliveries.listPending('r', limit, new Set(except))).map((each) => each.conversation)
    expect(await behind(10)).toEqual([otherConversation, third, conversation])
    expect([await behind(0), await behind(1), await behind(2, [otherConversation])]).toEqual([
      [],
      [otherConversation],
      [third, conversation],
    ])
    await fixture.storage.log.append(otherConversation, [pause])
    expect(await behind(10)).toEqual([otherConversation, third, conversation])
    await deliveries.advance('r', otherConversation, { position: 0, updated_at: 1 })
    expect(await behind(10)).toEqual([third, conversation, otherConversation])
    expect(await behind(10, ids)).toEqual([])
  })

  test('a cursor may move backwards, and not above the head', async () => {
    await using fixture = await open()
    const { conversations, deliveries, log } = fixture.storage
    await conversations.create({ id: conversation })
    await log.append(conversation, [pause, pause])
    const [record] = await conversations.get([conversation])
    const updated_at = record?.updated_at ?? null
    const to = (position: number) => deliveries.advance('r', conversation, { position, updated_at })
    await to(99)
    expect(await deliveries.listPending('r', 1)).toEqual([])
    await log.append(conversation, [pause])
    expect(await deliveries.listPending('r', 1)).toMatchObject([{ position: 2 }])
    await to(1)
    expect(await deliveries.listPending('r', 1)).toMatchObject([{ position: 1 }])
    const storage = await fixture.reopen()
    expect(await storage.deliveries.listPending('r', 1)).toMatchObject([{ position: 1, updated_at }])
    for (const position of [-1, 0.5, Number.NaN]) await expect(to(position)).rejects.toThrow('a cursor is')
  })

  test('the change signal is notified of every change', async () => {
    await using fixture = await open()
    const { conversations, deliveries, log } = fixture.storage
    const { changeSignal } = deliveries
    using waiter = new Waiter(new AbortController().signal)
    const steps = [
      () => conversations.create({ id: conversation }),
      () => log.append(conversation, [pause]),
      () => conversations.patch(conversation, { title: 'T' }),
      () => importEvents(fixture.storage, [receivedEvent('a', 1)]),
      () => conversations.remove(conversation),
    ]
    for (const step of steps) {
      const { version } = changeSignal
      const woken = changeSignal.wait(version, waiter)
      await step()
      await woken
      expect(changeSignal.version).toBeGreaterThan(version)
      await changeSignal.wait(version, waiter)
    }
    const { version } = changeSignal
    await conversations.patch(third, { title: 'missing' })
    expect(changeSignal.version).toBe(version)
  })

  randomHistoryContract(open)
}

const ids = [conversation, otherConversation, third]
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

function randomHistoryContract(open: OpenStorage): void {
  test('after any history, delivering all that is pending gives a receiver the exact state', {
    timeout: 300_000,
  }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(command, { maxLength: 30 }), async (commands) => {
        await using fixture = await open()
        const receivers = new Map([
          ['r', new Map() as ReceiverState],
          ['q', new Map() as ReceiverState],
        ])
        for (const [i, { kind, id, receiver, count }] of commands.entries()) {
          const { storage } = fixture
          const { conversations, deliveries, log } = storage
          const drafts = Array.from({ length: count }, () => pause)
          if (kind === 'create') await conversations.create({ id, title: `made ${i}` })
          if (kind === 'append') await log.append(id, drafts).catch(assertNotFound)
          if (kind === 'patch') await conversations.patch(id, { title: `patched ${i}` })
          if (kind === 'import')
            await importEvents(
              storage,
              drafts.map((_, j) => receivedEvent(`i${i}-${j}`, 1)),
              id,
            )
          if (kind === 'remove') await conversations.remove(id)
          if (kind === 'reopen') await fixture.reopen()
          if (kind !== 'tell' && kind !== 'lost') continue
          for (const behind of await deliveries.listPending(receiver, count))
            await deliver(
              storage,
              receiver,
              receivers.get(receiver) ?? new Map(),
              behind,
              count,
              kind === 'lost',
            )
        }
        for (const [receiver, known] of receivers) {
          await deliverAll(fixture.storage, receiver, known)
          expect(known).toEqual(await expectedState(fixture.storage))
        }
      }),
      { numRuns: 100 },
    )
  })

  test('a receiver that follows the change signal receives everything while others write', async () => {
    await using fixture = await open()
    const { conversations, deliveries, log } = fixture.storage
    const known: ReceiverState = new Map()
    const controller = new AbortController()
    using waiter = new Waiter(controller.signal)
    const following = (async () => {
      while (!controller.signal.aborted) {
        const { version } = deliveries.changeSignal
        await deliverAll(fixture.storage, 'r', known)
        await deliveries.changeSignal.wait(version, waiter)
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
    const expected = await expectedState(fixture.storage)
    await expect.poll(() => known, { timeout: 20_000 }).toEqual(expected)
    controller.abort()
    await following
  })
}

function assertNotFound(error: unknown): void {
  expect(error).toMatchObject({ code: 'not_found' })
}
