import { positionsPerConversation } from '../../event-log/append-planner.ts'
import type { PagedEvent } from '../../event-log/event-log.ts'
import { type Database, toBuffer } from '../database/database.ts'
import { eventChecksum } from './checksum.ts'

/** Larger rows are read one by one, because joining needs three times their memory. */
const maxJoinedBytes = 16 * 1024 * 1024

export interface JoinedRows {
  /** The bodies, separated by commas, between `open` and `close`. */
  readonly bytes: Buffer
  /** The events; their bytes are within these. */
  split(): PagedEvent[]
}

/**
 * The bodies of a range of rows, joined by SQLite: one value instead of five for each row is half the work,
 * and little for the garbage collector. Verifies each; undefined when a row is missing or not what was written,
 * or when the rows are large: then read them one by one.
 */
export function readJoinedRows(
  db: Database,
  { low, high }: { readonly low: number; readonly high: number },
  options: { readonly isDescending: boolean; readonly open: string; readonly close: string },
): JoinedRows | undefined {
  const { isDescending, open, close } = options
  const columns = db.get<string[]>(columnsSql(isDescending), low, high) ?? []
  const [ids = [], instants = [], lengths = [], checksums = []] = columns.map((json) => JSON.parse(json))
  const sizeBytes = lengths.reduce(
    (sum: number, length: number) => sum + length + 1,
    open.length + close.length - 1,
  )
  if (ids.length !== high - low + 1 || sizeBytes > maxJoinedBytes) return undefined
  const [joined] = db.get<[Uint8Array | null]>(bodiesSql(isDescending), open, close, low, high) ?? []
  if (!joined || joined.length !== sizeBytes) return undefined
  const bytes = toBuffer(joined)
  const rowAt = (index: number) => (isDescending ? high - index : low + index)
  let at = open.length
  for (let index = 0; index < ids.length; index++) {
    const body = bytes.subarray(at, at + lengths[index])
    const checksum = checksums[index]
    if (checksum !== null && checksum !== eventChecksum(rowAt(index), ids[index], instants[index], body))
      return undefined
    at += lengths[index] + 1
  }
  const split = () => {
    let end = open.length - 1
    return lengths.map((length: number, index: number) => {
      const start = end + 1
      end = start + length
      return { position: rowAt(index) % positionsPerConversation, bytes: bytes.subarray(start, end) }
    })
  }
  return { bytes, split }
}

export function columnsSql(isDescending: boolean): string {
  return `SELECT json_group_array(id), json_group_array(instant), json_group_array(length(body)),
    json_group_array(checksum) ${fromRange(isDescending)}`
}

export function bodiesSql(isDescending: boolean): string {
  return `SELECT CAST(? || group_concat(body) || ? AS BLOB) ${fromRange(isDescending)}`
}

function fromRange(isDescending: boolean): string {
  return `FROM (SELECT id, instant, checksum, body FROM event WHERE row BETWEEN ? AND ?
    ORDER BY row ${isDescending ? 'DESC' : 'ASC'})`
}
