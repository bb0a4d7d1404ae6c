import { hash } from 'node:crypto'
import type { EncodedPage, EventPage, PagedEvent } from './event-log.ts'

const comma = 44
const nullBytes = Buffer.from('null')

/** The JSON of a page before its events. */
export const pageStart = '{"items":['

/** The JSON of a page after its events. */
export function pageEnd(nextPageId: string | null): string {
  return `],"next_page_id":${JSON.stringify(nextPageId)}}`
}

/**
 * EventPage as JSON (spec 2.4): the stored bytes of the events, spliced. The ETag is computed at the second
 * request for the page, because a digest costs as much as the page.
 */
export function pageBytes(page: EventPage): EncodedPage {
  const { encoded } = page
  if (encoded !== undefined) {
    encoded.etag ??= `"${hash('sha256', encoded.bytes, 'base64url').slice(0, 27)}"`
    return encoded
  }
  const bytes = page.json ?? spliceEvents(pageStart, page.items, pageEnd(page.next_page_id))
  page.encoded = { bytes, etag: undefined }
  return page.encoded
}

/** A JSON array of events, null for missing ones. */
export function eventListBytes(events: readonly (PagedEvent | undefined)[]): Buffer {
  return spliceEvents('[', events, ']')
}

/** EventRange as JSON: events of consecutive positions. */
export function rangeBytes(first: number, head: number, events: readonly PagedEvent[]): Buffer {
  return spliceEvents(`{"first":${first},"head":${head},"items":[`, events, ']}')
}

/** The events, separated by commas, between two ASCII texts. Copies once. */
function spliceEvents(open: string, events: readonly (PagedEvent | undefined)[], close: string): Buffer {
  let sizeBytes = open.length + close.length + Math.max(0, events.length - 1)
  for (const event of events) sizeBytes += event?.bytes.length ?? nullBytes.length
  const joined = Buffer.allocUnsafe(sizeBytes)
  let at = joined.write(open, 'latin1')
  for (const [index, event] of events.entries()) {
    if (index > 0) joined[at++] = comma
    const bytes = event?.bytes ?? nullBytes
    joined.set(bytes, at)
    at += bytes.length
  }
  joined.write(close, at, 'latin1')
  return joined
}
