import { createHash } from 'node:crypto'
import type { EventPage, PagedEvent } from './event-log.ts'

const comma = 44
const nothing = Buffer.from('null')

/** EventPage as JSON; `etag` from the second time the same page is asked for. */
class Written {
  readonly bytes: Buffer
  etag: string | undefined

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }
}

/**
 * EventPage as JSON (spec 2.4): the stored bytes of the events, spliced. It has no ETag the first time, because a digest
 * costs as much as the page.
 */
export function pageBytes(page: EventPage): Written {
  const known = page.memo
  if (known instanceof Written) {
    known.etag ??= `"${createHash('sha256').update(known.bytes).digest('base64url').slice(0, 27)}"`
    return known
  }
  const close = `],"next_page_id":${JSON.stringify(page.next_page_id)}}`
  const made = new Written(spliced('{"items":[', page.items, close))
  page.memo = made
  return made
}

/** A JSON array of events, null for those that are missing. */
export function listBytes(events: readonly (PagedEvent | undefined)[]): Buffer {
  return spliced('[', events, ']')
}

/** The events between two texts of ASCII, with commas, copied once. */
function spliced(open: string, events: readonly (PagedEvent | undefined)[], close: string): Buffer {
  let sizeBytes = open.length + close.length + Math.max(0, events.length - 1)
  for (const event of events) sizeBytes += event?.bytes.length ?? nothing.length
  const joined = Buffer.allocUnsafe(sizeBytes)
  let at = joined.write(open, 'latin1')
  for (const [index, event] of events.entries()) {
    if (index > 0) joined[at++] = comma
    const bytes = event?.bytes ?? nothing
    joined.set(bytes, at)
    at += bytes.length
  }
  joined.write(close, at, 'latin1')
  return joined
}
