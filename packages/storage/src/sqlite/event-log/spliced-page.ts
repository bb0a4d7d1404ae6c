/**
 * A page of events as one JSON text that SQLite splices.
 *
 * Problem: a page of a hundred events is a hundred BLOBs, each with its own ArrayBuffer. Freeing them
 * takes as long as reading them.
 *
 * Idea: a page without filters, of a log in order of time, is one range of rows. One query reads the ids,
 * instants, lengths and checksums of the range. Another one joins its bodies, with the beginning and the end
 * of the page, into one BLOB.
 *
 * Invariants:
 * - The page has the stored bytes of its events and a comma between two of them: its length is the sum of the
 *   lengths (`sizeBytes`).
 * - Every event is verified in its place in the text (`bodiesOf`), as an event is that is read alone. So
 *   another order or another state of the log in the second query is noticed.
 * - No event of the range is missing (`verifyDense`).
 * - A page in doubt is undefined, and is read event by event: only one place finds and reports what is
 *   damaged.
 * - Bodies with blobs are not spliced (`isSplit`): what is stored of them is not their text.
 * - Above `maxSplicedBytes` nothing is spliced, because SQLite holds the text twice.
 *
 * If you change this: pages that differ from the stored bytes. Readers of pages, of streams and of exports
 * get the same bytes of an event.
 *
 * Decision page: docs/decisions/0006-page-cache.md
 */

import { originalId, positionsPerConversation } from '../../event-log/append-planner.ts'
import type { EncodedPage, EventPage, PagedEvent } from '../../event-log/event-log.ts'
import { pageEnd, pageStart } from '../../event-log/page-bytes.ts'
import { isSplit } from '../blobs/stored-body.ts'
import { type Database, toBuffer } from '../database/database.ts'
import type { EventMeta, EventRows } from './event-rows.ts'
import { direction, rowBounds, type Selection } from './event-search.ts'

const maxSplicedBytes = 8 * 1024 * 1024

/**
 * A page of a log in order of time, without filters. Undefined when the page has to be read event by event:
 * fewer than two events, very long ones, those with blobs, and where a checksum does not match. Throws a
 * DamageError for a missing event.
 */
export function splicePage(
  db: Database,
  events: EventRows,
  selection: Selection,
  encodePageId: (position: number, id: string) => string,
): EventPage | undefined {
  const range = rowBounds(db, selection)
  if (range === undefined) return undefined
  const { isDescending, limit } = selection
  const low = isDescending ? Math.max(range.low, range.high - limit + 1) : range.low
  const high = isDescending ? range.high : Math.min(range.high, range.low + limit - 1)
  const metas = db.all<EventMeta>(metaSql(isDescending), low, high)
  events.verifyDense(metas, range, selection)
  // The limit of a selection is one above that of the page.
  const next = metas.length === limit ? metas.pop() : undefined
  const [first, last] = [metas[0]?.[0] ?? 0, metas.at(-1)?.[0] ?? 0]
  if (first === last) return undefined
  const next_page_id =
    next === undefined ? null : encodePageId(next[0] % positionsPerConversation, originalId(next[1]))
  const end = pageEnd(next_page_id)
  const sizeBytes = metas.reduce((sum, meta) => sum + meta[3] + 1, pageStart.length + end.length - 1)
  if (sizeBytes > maxSplicedBytes) return undefined
  const bounds = isDescending ? [last, first] : [first, last]
  const [body] = db.get<[Uint8Array]>(spliceSql(isDescending), ...bounds, first, pageStart, last, end) ?? []
  if (body?.length !== sizeBytes) return undefined
  const json = toBuffer(body)
  for (const [meta, bytes] of bodiesOf(json, metas))
    if (isSplit(bytes) || !events.matchesChecksum(meta, bytes)) return undefined
  return new SplicedPage(json, metas, next_page_id)
}

/**
 * A class, because the getter of an object literal makes a hidden class for each object, outside the young
 * generation: the page would wait for a full collection.
 */
class SplicedPage implements EventPage {
  readonly next_page_id: string | null
  readonly json: Buffer
  encoded?: EncodedPage
  readonly #metas: readonly EventMeta[]

  constructor(json: Buffer, metas: readonly EventMeta[], nextPageId: string | null) {
    this.json = json
    this.#metas = metas
    this.next_page_id = nextPageId
  }

  get items(): PagedEvent[] {
    return Array.from(bodiesOf(this.json, this.#metas), ([[row], bytes]) => ({
      position: row % positionsPerConversation,
      bytes,
    }))
  }
}

/** The events of a page and their bytes in its JSON. */
function* bodiesOf(json: Buffer, metas: readonly EventMeta[]): Generator<[EventMeta, Buffer]> {
  let at = pageStart.length
  for (const meta of metas) {
    const end = at + meta[3]
    yield [meta, json.subarray(at, end)]
    at = end + 1
  }
}

function metaSql(isDescending: boolean): string {
  return `SELECT row, id, instant, length(body), checksum, finer FROM event WHERE row BETWEEN ? AND ?
    ORDER BY row ${direction(isDescending)}`
}

function spliceSql(isDescending: boolean): string {
  const piece = 'CASE row WHEN ?3 THEN ?4 || body WHEN ?5 THEN body || ?6 ELSE body END'
  const rows = `SELECT row, body FROM event WHERE row BETWEEN ?1 AND ?2 ORDER BY row ${direction(isDescending)}`
  return `SELECT CAST(group_concat(${piece}, ',') AS BLOB) FROM (${rows})`
}
