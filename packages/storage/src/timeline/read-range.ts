import { type Bound, invalidInput } from '@slipway/protocol'
import type { ConversationRecord } from '../conversations/conversation-records.ts'
import type { EventLog } from '../event-log/event-log.ts'
import { rangeBytes } from '../event-log/page-bytes.ts'

const maxBytes = 4 * 1024 * 1024

/**
 * EventRange as JSON: from a position, or from the first event at or after a moment (behind the last event
 * when there is none). A Problem `invalid` for both.
 */
export async function readRange(
  log: Pick<EventLog, 'read' | 'search'>,
  { id, head }: Pick<ConversationRecord, 'id' | 'head'>,
  query: { readonly first?: number | undefined; readonly at?: Bound | undefined; readonly limit: number },
): Promise<Buffer> {
  const { at, limit } = query
  if (at !== undefined && query.first !== undefined)
    throw invalidInput(['query', 'at'], 'Either first or at is given')
  const first = at === undefined ? (query.first ?? 1) : await positionAt(log, id, at, head)
  const events =
    first > head ? [] : await log.read(id, first - 1, Math.min(limit, head - first + 1), maxBytes)
  return rangeBytes(first, head, events)
}

async function positionAt(
  log: Pick<EventLog, 'search'>,
  id: string,
  at: Bound,
  head: number,
): Promise<number> {
  const { items } = await log.search(id, { timestamp__gte: at, limit: 1, sort_order: 'TIMESTAMP' })
  return items[0]?.position ?? head + 1
}
