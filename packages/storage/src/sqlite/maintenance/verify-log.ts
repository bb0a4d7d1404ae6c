import type { DatabaseSync } from 'node:sqlite'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { readBody } from '../blobs/blobs.ts'
import { valuesChecksum } from '../database/values-checksum.ts'
import { eventChecksum } from '../event-log/checksum.ts'
import { checkedColumns } from '../event-log/conversation-row.ts'
import { blobRows, openFile, rowsOf } from './open-file.ts'

/** An event that is missing, that does not match its checksum, or that should not be there. */
export interface DamagedEvent {
  readonly conversation: string
  readonly position: number
  readonly reason: string
}

export interface LogReport {
  readonly conversations: number
  /** Events that were read. */
  readonly events: number
  /** Those of versions without checksums: only their positions are verified. */
  readonly unchecked: number
  readonly damaged: readonly DamagedEvent[]
  /** Conversations whose record (title, tags, status and so on) does not match its checksum. */
  readonly records: readonly string[]
  /** What SQLite says about the file; empty when it is in order. */
  readonly problems: readonly string[]
}

interface VerifyOptions {
  /** Newest events to read of each conversation; all of them unless passed. */
  readonly newest?: number
  /** The events of an increment: what is before its first event of a conversation is elsewhere. */
  readonly isPartial?: boolean
  /** Compare the indexes with the tables too, which takes much longer. */
  readonly isThorough?: boolean
}

type EventRow = readonly [
  row: number,
  id: string,
  instant: number | null,
  body: Uint8Array,
  checksum: number | null,
  finer: string,
]

export const surplusReason = 'is behind the end of the log'
/** The event is right, and the record of its conversation is not. */
export const endReason = 'is not the one that the log ends with'
/** Most findings of one kind in a report. */
export const maxFindings = 1_000

/**
 * Reads a log as it is at one moment, also while a server writes it, and verifies it. Throws for a file that
 * is none.
 */
export function verifyLog(path: string, options: VerifyOptions = {}): LogReport {
  using db = openFile(path, { readOnly: true })
  db.exec('BEGIN')
  return verifyOpenLog(db, options)
}

export function verifyOpenLog(db: DatabaseSync, options: VerifyOptions = {}): LogReport {
  const { newest, isPartial = false, isThorough = false } = options
  const problems = checkFile(db, isThorough)
  const damaged: DamagedEvent[] = []
  const counts = { conversations: 0, events: 0, unchecked: 0 }
  const columns = new Set(rowsOf<[string]>(db, "SELECT name FROM pragma_table_info('event')").flat())
  const checksum = columns.has('checksum') ? 'checksum' : 'NULL'
  const finerColumn = columns.has('finer') ? 'finer' : "''"
  const select = db.prepare(
    `SELECT row, id, CASE WHEN abs(instant) <= ${Number.MAX_SAFE_INTEGER} THEN instant END, body, ${checksum}, ${finerColumn}
     FROM event WHERE row > ? AND row < ? ORDER BY row`,
  )
  select.setReturnArrays(true)
  const blobs = blobRows(db)
  const leftovers = new Map(rowsOf<[number, number]>(db, 'SELECT ordinal, above FROM leftover'))
  const visible = `SELECT ordinal, id, head, CASE in_order WHEN 1 THEN CAST(last_instant AS REAL) END
    FROM conversation
    WHERE is_visible = 1 ORDER BY ordinal`
  for (const row of rowsOf<[number, string, number, number | null]>(db, visible)) {
    const [ordinal, conversation, head, lastInstant] = row
    counts.conversations++
    const base = ordinal * positionsPerConversation
    const fail = (position: number, reason: string) => {
      if (damaged.length < maxFindings) damaged.push({ conversation, position, reason })
    }
    let expected = newest === undefined ? 1 : Math.max(1, head - newest + 1)
    let isFirst = isPartial
    const rows = select.iterate(base + expected - 1, base + positionsPerConversation)
    try {
      for (const [row, id, instant, body, sum, finer] of rows as unknown as Iterable<EventRow>) {
        const position = row - base
        if (position > head) {
          if (leftovers.has(ordinal) || damaged.length >= maxFindings) break
          fail(position, surplusReason)
          continue
        }
        if (isFirst) expected = position
        isFirst = false
        for (; expected < position; expected++) fail(expected, 'is missing')
        expected = position + 1
        counts.events++
        if (instant === null) {
          fail(position, 'has an instant out of range')
          continue
        }
        if (sum === null) counts.unchecked++
        else if (sum !== eventChecksum(row, id, { instant, finer }, readBody(blobs, body))) {
          fail(position, 'does not match its checksum')
          continue
        }
        if (position === head && (lastInstant ?? instant) !== instant) fail(position, endReason)
      }
      for (; !isFirst && expected <= head && damaged.length < maxFindings; expected++)
        fail(expected, 'is missing')
    } catch (error) {
      fail(expected, `cannot be read: ${error instanceof Error ? error.message : error}`)
    }
  }
  return { ...counts, damaged, records: findDamagedRecords(db), problems }
}

function findDamagedRecords(db: DatabaseSync): string[] {
  const columns = rowsOf<[string]>(db, "SELECT name FROM pragma_table_info('conversation')")
  if (!columns.some(([name]) => name === 'checksum')) return []
  const sql = `SELECT checksum, ${checkedColumns} FROM conversation WHERE is_visible = 1 AND checksum IS NOT NULL`
  const damaged: string[] = []
  for (const [checksum, ...values] of rowsOf<(string | number | null)[]>(db, sql))
    if (checksum !== valuesChecksum(values) && damaged.length < maxFindings) damaged.push(String(values[1]))
  return damaged
}

/** What SQLite finds wrong with a file. Thorough: compares the indexes with the tables too. */
export function checkFile(db: DatabaseSync, isThorough: boolean): string[] {
  return check(db, `${isThorough ? 'integrity_check' : 'quick_check'}(20)`)
}

/** The same for a table and its indexes; nothing for a table that is missing. */
export function checkTable(db: DatabaseSync, table: string): string[] {
  const isThere = rowsOf(db, 'SELECT 1 FROM sqlite_schema WHERE name = ?', table).length > 0
  return isThere ? check(db, `integrity_check(${table})`).map((line) => `table ${table}: ${line}`) : []
}

function check(db: DatabaseSync, pragma: string): string[] {
  try {
    const lines = rowsOf<[string]>(db, `PRAGMA ${pragma}`).map(([line]) => line)
    return lines.filter((line) => line !== 'ok')
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}
