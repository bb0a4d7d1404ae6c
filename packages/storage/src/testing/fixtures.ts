import type { Instant, LogFunction } from '@slipway/protocol'
import type { Storage } from '../conversations/storage.ts'
import type { PagedEvent, ReceivedEvent, StoredEvent } from '../event-log/event-log.ts'

/** An empty storage for one test. `reopen` closes it and opens it again. */
export interface OpenedStorage extends AsyncDisposable {
  readonly storage: Storage
  reopen(): Promise<Storage>
}

export type OpenStorage = (options?: {
  readonly now?: () => Instant
  readonly log?: LogFunction
}) => Promise<OpenedStorage>

export const conversation = '0f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'
export const otherConversation = '1f9a2f6e-5d0c-4c1b-9a57-0d1c2b3a4f5e'

/** A received event, by default of a kind without text. */
export function receivedEvent(
  id: string,
  instant: Instant,
  members: Partial<ReceivedEvent> & { text?: string } = {},
): ReceivedEvent {
  const { text = '', kind = 'PauseEvent', source = 'user', ...rest } = members
  const llm_message = { role: 'user', content: [{ type: 'text', text }] }
  const bytes = Buffer.from(
    JSON.stringify({ id, source, ...(kind === 'MessageEvent' ? { llm_message } : {}), kind }),
  )
  return { bytes, id, instant, kind, source, ...rest }
}

export function positions(
  events: readonly (Pick<StoredEvent, 'position'> | undefined)[],
): (number | undefined)[] {
  return events.map((event) => event?.position)
}

export async function readAll(storage: Storage, id = conversation): Promise<StoredEvent[]> {
  return await storage.log.read(id, 0, 1_000_000)
}

/** Stores events in one import. */
export async function importEvents(
  storage: Storage,
  events: readonly ReceivedEvent[],
  id = conversation,
): Promise<void> {
  const session = await storage.startImport(id)
  for (let i = 0; i < events.length; i += 50) await session.add(events.slice(i, i + 50))
  await session.publish({})
}

export function eventId({ bytes }: PagedEvent): string {
  return JSON.parse(bytes.toString()).id
}
