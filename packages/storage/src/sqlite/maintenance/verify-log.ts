import type { DatabaseSync } from 'node:sqlite'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { eventChecksum } from '../event-log/checksum.ts'
import { openFile, rowsOf } from './open-file.ts'

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

type EventRow = readonly [row: number, id: string, instant: number, body: Uint8Array, checksum: number | null]

export const surplusReason = 'is behind the end of the log'
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
  const hasChecksums =
    rowsOf(db, "SELECT 1 FROM pragma_table_info('event') WHERE name = 'checksum'").length > 0
  const checksum = hasChecksums ? 'checksum' : 'NULL'
  const select = db.prepare(
    `SELECT row, id, instant, body, ${checksum} FROM event WHERE row > ? AND row < ? ORDER BY row`,
  )
  select.setReturnArrays(true)
  const leftovers = new Map(rowsOf<[number, number]>(db, 'SELECT ordinal, above FROM leftover'))
  const visible = 'SELECT ordinal, id, head FROM conversation WHERE is_visible = 1 ORDER BY ordinal'
  for (const [ordinal, conversation, head] of rowsOf<[number, string, number]>(db, visible)) {
    counts.conversations++
    const base = ordinal * positionsPerConversation
    const fail = (position: number, reason: string) => {
      if (damaged.length < maxFindings) damaged.push({ conversation, position, reason })
    }
    let expected = newest === undefined ? 1 : Math.max(1, head - newest + 1)
    let isFirst = isPartial
    const rows = select.iterate(base + expected - 1, base + positionsPerConversation)
    try {
      for (const [row, id, instant, body, sum] of rows as unknown as Iterable<EventRow>) {
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
        if (sum === null) counts.unchecked++
        else if (sum !== eventChecksum(row, id, instant, body)) fail(position, 'does not match its checksum')
      }
      for (; !isFirst && expected <= head && damaged.length < maxFindings; expected++)
        fail(expected, 'is missing')
    } catch (error) {
      fail(expected, `cannot be read: ${error instanceof Error ? error.message : error}`)
    }
  }
  return { ...counts, damaged, problems }
}

/** What SQLite finds wrong with a file. */
export function checkFile(db: DatabaseSync, isThorough: boolean): string[] {
  try {
    const pragma = isThorough ? 'integrity_check' : 'quick_check'
    const lines = rowsOf<[string]>(db, `PRAGMA ${pragma}(20)`).map(([line]) => line)
    return lines.filter((line) => line !== 'ok')
  } catch (error) {
    return [error instanceof Error ? error.message : String(error)]
  }
}
