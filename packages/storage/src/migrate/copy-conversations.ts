import { createHash } from 'node:crypto'
import { isRecord } from '@slipway/shared/json'
import type { ConversationRecord, SealedState } from '../conversations/conversation-records.ts'
import type { Storage } from '../conversations/storage.ts'
import { toReceivedEvent } from '../event-log/received-event.ts'

/** A storage to copy to, whose clock the copy sets, so that records keep their times. */
interface CopyTarget {
  readonly storage: Storage
  setClock(instant: number): void
  /** For a time that the clock cannot give: equal to that of the creation. */
  setUpdatedAt(conversation: string, instant: number): Promise<void>
}

export interface CopyProgress {
  readonly conversations: number
  readonly events: number
}

const conversationsPerPage = 100
const eventsPerBatch = 500
const bytesPerBatch = 4 * 1024 * 1024

/**
 * Copies all conversations, with their events byte for byte, and compares each copy with its original. One
 * that is there already, as after an interruption, is compared and left. Rejects with a plain Error for a
 * conversation of the target that differs.
 */
export async function copyConversations(
  from: Storage,
  target: CopyTarget,
  onProgress: (progress: CopyProgress) => void,
): Promise<CopyProgress> {
  const parents = new Map<string, string>()
  for await (const { id } of listAll(from))
    for (const child of (await from.conversations.listChildren([id])).flat()) parents.set(child, id)
  let [conversations, events] = [0, 0]
  const onEvents = (count: number) => {
    events += count
    onProgress({ conversations, events })
  }
  for await (const record of listAll(from)) {
    await copyConversation(from, target, record, parents.get(record.id), onEvents)
    conversations += 1
    onProgress({ conversations, events })
  }
  return { conversations, events }
}

async function* listAll({ conversations }: Storage): AsyncGenerator<ConversationRecord> {
  for (let page_id: string | undefined; ; ) {
    const query = { limit: conversationsPerPage, sort_order: 'CREATED_AT', page_id } as const
    const page = await conversations.search(query)
    yield* page.items
    if (page.next_page_id === null) return
    page_id = page.next_page_id
  }
}

async function copyConversation(
  from: Storage,
  { storage: to, setClock, setUpdatedAt }: CopyTarget,
  record: ConversationRecord,
  parent: string | undefined,
  onEvents: (count: number) => void,
): Promise<void> {
  const { id, title, tags, request, status, stats, created_at, updated_at, head } = record
  const state = await from.conversations.getSealedState(id)
  setClock(created_at)
  const sealed = state?.sealed ?? undefined
  await to.conversations.create({ id, title, tags, request, status, parent, sealed })
  const [copy] = await to.conversations.get([id])
  if (copy?.head === 0) {
    setClock(updated_at)
    if (head > 0)
      await copyEvents(from, to, record, { status, ...(stats === null ? {} : { stats }) }, onEvents)
    else if (updated_at > copy.updated_at) await to.conversations.patch(id, {})
  }
  await copySnapshot(to, id, state)
  const [made] = await to.conversations.get([id])
  if (made?.head === head && made.updated_at === created_at + 1 && updated_at === created_at)
    await setUpdatedAt(id, updated_at)
  await compare(from, to, record, state)
}

async function copyEvents(
  from: Storage,
  to: Storage,
  { id, head }: ConversationRecord,
  update: { readonly status: string; readonly stats?: string },
  onEvents: (count: number) => void,
): Promise<void> {
  const session = await to.startImport(id)
  try {
    for (let position = 0; position < head; ) {
      const events = await from.log.read(id, position, eventsPerBatch, bytesPerBatch)
      await session.add(
        events.map((event) => {
          const value: unknown = JSON.parse(event.bytes.toString())
          if (!isRecord(value)) throw new Error(`Position ${event.position} of ${id} is no object`)
          const options = { keep: true, last: event, now: event.instant }
          const { id: eventId, instant, finer } = event
          return { ...toReceivedEvent(event.bytes, value, options), id: eventId, instant, finer }
        }),
      )
      position = events.at(-1)?.position ?? head
      onEvents(events.length)
    }
    await session.publish(update)
  } catch (error) {
    await session.abort()
    throw error
  }
}

async function copySnapshot(to: Storage, id: string, state: SealedState | undefined): Promise<void> {
  if (state?.snapshot != null) await to.conversations.saveSnapshot(id, state.snapshot)
}

async function compare(
  from: Storage,
  to: Storage,
  record: ConversationRecord,
  state: SealedState | undefined,
): Promise<void> {
  const { id } = record
  const [copy] = await to.conversations.get([id])
  const stateOfCopy = await to.conversations.getSealedState(id)
  const members = [...differingMembers(record, copy), ...differingMembers(state ?? {}, stateOfCopy ?? {})]
  // Events of another number are not compared.
  const isSame = members.length > 0 || (await digest(from, record)) === (await digest(to, record))
  const differing = isSame ? members : ['events']
  if (differing.length === 0) return
  throw new Error(
    `The conversation ${id} differs in the target (${differing.join(', ')}): delete it there, or use another target`,
  )
}

function differingMembers(original: object, copy: object | undefined): string[] {
  const isSame = ([name, value]: [string, unknown]) =>
    JSON.stringify(value) === JSON.stringify(Reflect.get(copy ?? {}, name))
  return Object.entries(original)
    .filter((member) => !isSame(member))
    .map(([name]) => name)
}

/** Of all positions and bytes. */
async function digest({ log }: Storage, { id, head }: ConversationRecord): Promise<string> {
  const hash = createHash('sha256')
  for (let position = 0; position < head; ) {
    const events = await log.read(id, position, eventsPerBatch, bytesPerBatch)
    for (const event of events) {
      if (event.position !== ++position) throw new Error(`Position ${position} of ${id} is missing`)
      hash
        .update(`${position} ${event.instant} ${event.finer ?? ''} ${event.bytes.length}\n`)
        .update(event.bytes)
    }
    if (events.length === 0) throw new Error(`Position ${position + 1} of ${id} is missing`)
  }
  return hash.digest('hex')
}
