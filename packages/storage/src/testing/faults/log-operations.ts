import { randomUUID } from 'node:crypto'
import type { Storage } from '../../conversations/storage.ts'
import type { PendingDelivery } from '../../deliveries/deliveries.ts'
import type { ReceivedEvent, RecordUpdate } from '../../event-log/event-log.ts'
import { receivedEvent } from '../fixtures.ts'
import type { Operation } from './fault-rounds.ts'

/** The conversations of one round: `made` does not exist before an operation. */
export interface RoundIds {
  readonly main: string
  readonly other: string
  readonly made: string
}

export function newRoundIds(): RoundIds {
  return { main: randomUUID(), other: randomUUID(), made: randomUUID() }
}

/** A kind of this round alone. */
export function newKind(made: string): string {
  return `Kind${made.replaceAll('-', '')}`
}

/** The receiver of webhooks. */
export const receiver = 'receiver'
const text = (value: string) => ({ kind: 'MessageEvent', text: value })
const added = [
  receivedEvent('b0', 20),
  receivedEvent('b1', 21, text('a needle')),
  receivedEvent('b2', 21, text('no more')),
]

/** What every round begins with. */
export async function setUp(storage: Storage, { main, other }: RoundIds): Promise<void> {
  const { log, conversations } = storage
  const events = [receivedEvent('a0', 10), receivedEvent('a1', 11, text('needle'))]
  await Promise.all([
    conversations.create({ id: main, title: 'main', tags: { of: 'main' }, sealed: Buffer.from('s0') }),
    conversations.create({ id: other, title: 'other' }),
  ])
  await Promise.all([log.append(main, events, { record: { status: 'idle' } }), log.append(other, events)])
  await deliver(storage)
}

/** Hands everything that is pending to the receiver. */
export async function deliver({ deliveries, conversations }: Storage): Promise<void> {
  const pending = await deliveries.listPending(receiver, 10_000)
  const deliverOne = async ({ conversation, isRemoved }: PendingDelivery) => {
    if (isRemoved) return await deliveries.forget(receiver, conversation)
    const [record] = await conversations.get([conversation])
    if (record === undefined) return
    const { head, updated_at } = record
    await deliveries.advance(receiver, conversation, { position: head, updated_at })
  }
  await Promise.all(pending.map(deliverOne))
}

/** The event that every round ends with, in each conversation that is there. */
export async function appendLast({ log, conversations }: Storage, ids: RoundIds): Promise<void> {
  const records = await conversations.get(Object.values(ids))
  const last = [receivedEvent('last', 90, text('last needle'))]
  await Promise.all(records.map((record) => record && log.append(record.id, last)))
}

export const logOperations: readonly Operation<Storage, RoundIds>[] = [
  {
    name: 'append',
    run: ({ log }, { main, made }) => {
      // A kind that the storage has not seen.
      const events = [...added, receivedEvent('b3', 22, { kind: newKind(made) })]
      return log.append(main, events, { after: 2, record: { status: 'running', stats: '{}' } })
    },
  },
  {
    name: 'create',
    run: ({ conversations }, { made, main }) =>
      conversations.create({
        id: made,
        title: 'made',
        tags: { a: 'b' },
        parent: main,
        sealed: Buffer.from('s'),
      }),
  },
  {
    name: 'title, tags and secrets',
    run: ({ conversations }, { main }) =>
      conversations.patch(main, { title: 'new', tags: { a: 'b' }, request: '{}', sealed: Buffer.from('s1') }),
  },
  {
    name: 'snapshot',
    run: ({ conversations }, { main }) =>
      conversations.saveSnapshot(main, { position: 2, text: '{"fold":2}' }),
  },
  { name: 'delete', run: ({ conversations }, { main }) => conversations.remove(main) },
  {
    name: 'import',
    run: (storage, { made }) => importInto(storage, made, { title: 'imported', status: 'paused' }),
  },
  {
    name: 'import into a conversation',
    run: (storage, { main }) => importInto(storage, main, { title: 'more' }),
  },
  { name: 'aborted import', run: (storage, { made }) => importInto(storage, made, undefined) },
  {
    name: 'aborted import into a conversation',
    run: (storage, { main }) => importInto(storage, main, undefined),
  },
  { name: 'fork', run: (storage, ids) => fork(storage, ids) },
  {
    name: 'delivery',
    run: ({ deliveries }, { main }) => deliveries.advance(receiver, main, { position: 1, updated_at: null }),
  },
  { name: 'end of deliveries', run: ({ deliveries }, { main }) => deliveries.forget(receiver, main) },
]

/** In two transactions; aborts when there is nothing to publish, or after a failure. */
async function importInto(storage: Storage, id: string, update: RecordUpdate | undefined): Promise<void> {
  const batches: ReceivedEvent[][] = [added.slice(0, 2), added.slice(2)]
  const session = await storage.startImport(id)
  try {
    for (const batch of batches) await session.add(batch)
    if (update !== undefined) await session.publish(update)
  } catch (error) {
    await session.abort()
    throw error
  }
  if (update === undefined) await session.abort()
}

async function fork(storage: Storage, { main, made }: RoundIds): Promise<void> {
  const [existing] = await storage.conversations.get([made])
  if (existing !== undefined) return
  const session = await storage.startImport(made)
  try {
    for (const { id, instant } of await storage.log.read(main, 0, 100))
      await session.add([receivedEvent(id, instant, id === 'a1' ? text('needle') : {})])
    await session.publish({ title: 'fork', tags: { of: 'main' }, status: 'idle', sealed: Buffer.from('s0') })
  } catch (error) {
    await session.abort()
    throw error
  }
}
