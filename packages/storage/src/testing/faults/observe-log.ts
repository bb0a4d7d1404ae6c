import type { Storage } from '../../conversations/storage.ts'
import { eventId } from '../fixtures.ts'
import type { State } from './fault-rounds.ts'
import { newKind, type RoundIds, receiver } from './log-operations.ts'

/**
 * The conversations of a round, by each way to read them, and what waits for the receiver. Times of records
 * are left out: a repeated change sets them again.
 */
export async function observeLog(storage: Storage, ids: RoundIds): Promise<State> {
  const entries = Object.entries(ids).map(async ([name, id]) => {
    const [record] = await storage.conversations.get([id])
    const { made } = ids
    const seen = record ? observeConversation(storage, { id, made }) : observeAbsence(storage, id)
    return [name, await seen] as const
  })
  const seen = Object.fromEntries(await Promise.all(entries))
  const listed = await storage.deliveries.listPending(receiver, 10_000)
  const pending = Object.entries(ids).map(([name, id]) => {
    const found = listed.find(({ conversation }) => conversation === id)
    return [name, found && `${found.position} ${found.isRemoved}`]
  })
  return { seen, later: Object.fromEntries(pending) }
}

async function observeAbsence({ log, conversations }: Storage, id: string): Promise<object> {
  const error: unknown = await log.read(id, 0, 1).catch((reason: unknown) => reason)
  return { sealed: await conversations.getSealedState(id), read: (error as { code?: string }).code ?? error }
}

async function observeConversation(
  { log, conversations }: Storage,
  { id, made }: { readonly id: string; readonly made: string },
): Promise<object> {
  const [{ created_at: _, updated_at: __, id: ___, ...record } = {} as never] = await conversations.get([id])
  const events = await log.read(id, 0, 1_000)
  const page = async (sort_order: 'TIMESTAMP' | 'TIMESTAMP_DESC', filter: object) => {
    const { items } = await log.search(id, { sort_order, limit: 100, ...filter })
    return items.map((item) => `${item.position} ${eventId(item)}`)
  }
  const sealed = await conversations.getSealedState(id)
  return {
    record,
    sealed: { ...sealed, sealed: sealed?.sealed?.toString() },
    children: (await conversations.listChildren([id])).flat().length,
    events: events.map(
      ({ position, bytes }) => `${position} ${bytes.toString().replace(newKind(made), 'new')}`,
    ),
    ascending: await page('TIMESTAMP', {}),
    descending: await page('TIMESTAMP_DESC', {}),
    messages: await page('TIMESTAMP', { kind: 'MessageEvent' }),
    ofNewKind: await page('TIMESTAMP', { kind: newKind(made) }),
    count: await log.count(id, {}),
    byId: (await log.get(id, ['a0', 'b1', 'last'])).map((event) => event?.position),
    bytes: (await conversations.sumBytes([id])) - events.reduce((sum, { bytes }) => sum + bytes.length, 0),
  }
}

/** The events of a round that a search of texts finds. */
export async function searchTexts(storage: Storage, ids: RoundIds): Promise<readonly string[]> {
  await storage.waitUntilIndexed()
  const query = { sort_order: 'TIMESTAMP', limit: 100, body: 'needle' } as const
  const pages = Object.entries(ids).map(async ([name, id]) => {
    const { items } = await storage.log.search(id, query).catch(() => ({ items: [] }))
    return items.map((item) => `${name} ${item.position} ${eventId(item)}`)
  })
  return (await Promise.all(pages)).flat()
}
