import { type Cursor, Problem, type Resync } from '@slipway/protocol'
import type { EventLog, StoredEvent } from './event-log.ts'
import { textChecksum } from './text-checksum.ts'

/** `<position>.<digest>`: names an event by its position and a digest of its id and time. */
export function encodeCursor({
  position,
  id,
  instant,
}: Pick<StoredEvent, 'position' | 'id' | 'instant'>): string {
  return `${position}.${textChecksum(`${id}\n${instant}`)}`
}

/** The text of a parsed cursor. */
function formatCursor({ position, digest }: Cursor): string {
  return digest === undefined ? `${position}` : `${position}.${digest}`
}

/** The cursor after the event at a position of a conversation; `0` at the beginning. */
export async function cursorAt(log: EventLog, conversation: string, position: number): Promise<string> {
  const [event] = position === 0 ? [] : await log.read(conversation, position - 1, 1, 1)
  return event === undefined ? String(position) : encodeCursor(event)
}

/**
 * Undefined when the log of a conversation that ends at `head` has the event that a cursor names. A bare
 * position names none and is not checked.
 */
export async function checkCursor(
  log: EventLog,
  { id, head }: { readonly id: string; readonly head: number },
  cursor: Cursor,
): Promise<Resync | undefined> {
  const text = formatCursor(cursor)
  if (cursor.digest === undefined || cursor.position === 0) return undefined
  if (cursor.position <= head && (await cursorAt(log, id, cursor.position)) === text) return undefined
  return { after: 0, head, cursor: text, message: otherHistory }
}

/** The answer to a page id of an event that its conversation does not have any more: 409. */
export function pageOfOtherHistory(head: number): Problem {
  const members = { code: 'resync', after: 0, head }
  return new Problem('conflict', `${otherHistory} Start again without page_id.`, undefined, members)
}

const otherHistory = 'The log of this conversation has another history than the one that you read.'
