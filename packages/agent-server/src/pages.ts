import { createHash } from 'node:crypto'
import type { EventPage, StoredEvent } from '@slipway/storage'

const comma = Buffer.from(',')
const open = Buffer.from('{"items":[')
const nothing = Buffer.from('null')

interface Written {
  readonly bytes: Buffer
  etag: string | undefined
}

/** What was made of a page object, for as long as the log answers the same object. */
const written = new WeakMap<EventPage, Written>()

/**
 * EventPage as JSON (spec 2.4): the stored bytes of the events, spliced. From the second time the same page is asked
 * for it has an ETag; the first time a digest would cost as much as the page.
 */
export function pageBytes(page: EventPage): Written {
  const known = written.get(page)
  if (known !== undefined) {
    known.etag ??= `"${createHash('sha256').update(known.bytes).digest('base64url').slice(0, 27)}"`
    return known
  }
  const tail = Buffer.from(`],"next_page_id":${JSON.stringify(page.next_page_id)}}`)
  const made: Written = { bytes: Buffer.concat([open, ...joined(page.items), tail]), etag: undefined }
  written.set(page, made)
  return made
}

/** A JSON array of events, null for those that are missing. */
export function listBytes(events: readonly (StoredEvent | undefined)[]): Buffer {
  return Buffer.concat([Buffer.from('['), ...joined(events), Buffer.from(']')])
}

function joined(events: readonly (StoredEvent | undefined)[]): Buffer[] {
  const pieces: Buffer[] = []
  for (const event of events) {
    if (pieces.length > 0) pieces.push(comma)
    pieces.push(event?.bytes ?? nothing)
  }
  return pieces
}
