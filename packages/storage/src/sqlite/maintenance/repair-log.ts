import { randomUUID } from 'node:crypto'
import { chmodSync, constants, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { serializeEvent } from '../../event-log/serialize-event.ts'
import { compareSchema, schemaSql } from '../database/compare-schema.ts'
import { eventChecksum } from '../event-log/checksum.ts'
import { logMigrations } from '../event-log/schema.ts'
import { openFile, rowsOf, syncFile } from './open-file.ts'
import { dropUnpublished } from './unpublished.ts'
import { checkFile, type DamagedEvent, maxFindings, surplusReason, verifyOpenLog } from './verify-log.ts'

export interface RepairResult {
  /** Each was replaced by a ConversationErrorEvent at its position. */
  readonly damaged: readonly DamagedEvent[]
  /** Conversations whose end was wrong: their logs have the events behind it again. */
  readonly extended: readonly string[]
  /** Events of unpublished imports and removed conversations that were dropped. */
  readonly dropped: number
  /** What SQLite found wrong in the file before its indexes and pages were made again. */
  readonly rebuilt: readonly string[]
  /** What could not be repaired. */
  readonly problems: readonly string[]
}

type EventRow = readonly [id: string, instant: number, body: Uint8Array]

const errorKind = 'ConversationErrorEvent'
const source = 'environment'
const code = 'DamagedEvent'
/** Ids that are longer are damaged. */
const plausibleId = /^[\w.:-]{1,200}$/

/**
 * Repairs a log that no server uses. What is damaged is written to `directory` first, which is created for
 * it: the bytes of each event, and the whole file where SQLite finds it damaged. Positions and ids of all
 * other events stay.
 */
export function repairLog(path: string, directory: string): RepairResult {
  using db = openFile(path, { readOnly: false })
  const [[version] = [0]] = rowsOf<[number]>(db, 'PRAGMA user_version')
  const difference = compareSchema(rowsOf(db, schemaSql), logMigrations.slice(0, version))
  if (difference !== undefined)
    return { damaged: [], extended: [], dropped: 0, rebuilt: [], problems: [difference] }
  const rebuilt = checkFile(db, true)
  if (rebuilt.length > 0) rebuild(db, path, directory)
  const problems = rebuilt.length > 0 ? checkFile(db, true) : []
  if (problems.length > 0) return { damaged: [], extended: [], dropped: 0, rebuilt, problems }
  db.exec('BEGIN IMMEDIATE')
  const dropped = dropUnpublished(db)
  const surplus = verifyOpenLog(db).damaged.filter(isSurplus)
  const extended = [...new Set(surplus.map(({ conversation }) => conversation))]
  for (const conversation of extended) extendLog(db, conversation)
  const { damaged } = verifyOpenLog(db)
  if (damaged.length >= maxFindings || damaged.some(isSurplus)) {
    db.exec('ROLLBACK')
    const problem = 'more events are damaged than can be set aside'
    return { damaged: [], extended: [], dropped: 0, rebuilt, problems: [problem] }
  }
  for (const event of damaged) replaceEvent(db, directory, event)
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  return { damaged, extended, dropped, rebuilt, problems }
}

function isSurplus({ reason }: DamagedEvent): boolean {
  return reason === surplusReason
}

/** Events and the end of the log are written together, so an event behind the end was acknowledged. */
function extendLog(db: DatabaseSync, conversation: string): void {
  db.prepare(
    `UPDATE conversation SET
       head = (SELECT max(row) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1) - ordinal * ?1,
       last_instant = (SELECT max(instant) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1),
       bytes = (SELECT sum(length(body)) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1)
     WHERE id = ?2 AND is_visible = 1`,
  ).run(positionsPerConversation, conversation)
}

/** Indexes and free pages are made again from the tables, after a copy of the file. */
function rebuild(db: DatabaseSync, path: string, directory: string): void {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  // Moves the write-ahead log into the file, so that the copy is complete.
  attempt(() => db.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  copyFileDurably(path, join(directory, 'log.db'))
  attempt(() => db.exec('REINDEX'))
  attempt(() => db.exec('VACUUM'))
}

function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // What remains is found by the next check.
  }
}

/** Sets an event aside and puts an event about that in its place. */
function replaceEvent(db: DatabaseSync, directory: string, event: DamagedEvent): void {
  const { conversation, position, reason } = event
  const find = 'SELECT ordinal FROM conversation WHERE id = ? AND is_visible = 1'
  const [[ordinal] = [0]] = rowsOf<[number]>(db, find, conversation)
  const row = ordinal * positionsPerConversation + position
  const [damaged] = rowsOf<EventRow>(db, 'SELECT id, instant, body FROM event WHERE row = ?', row)
  if (damaged !== undefined) {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const file = join(directory, `${conversation.replaceAll(/[^\w-]/g, '_')}-${position}`)
    writeFileSync(file, damaged[2], { mode: 0o600, flag: 'wx' })
    syncFile(file)
  }
  db.prepare('DELETE FROM event WHERE row = ?').run(row)
  const instant = plausibleInstant(db, row, damaged?.[1])
  const storedId = damaged !== undefined && isFree(db, ordinal, damaged[0]) ? damaged[0] : randomUUID()
  const detail = `Event ${position} ${reason}. It was set aside by "slipway doctor --repair".`
  const body = serializeEvent({ kind: errorKind, source, code, detail }, storedId, instant)
  db.prepare(
    'INSERT INTO event (row, conversation, id, instant, facet, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ).run(row, ordinal, storedId, instant, facetNumber(db), body, eventChecksum(row, storedId, instant, body))
  db.prepare(
    `UPDATE conversation SET bytes = (SELECT sum(length(body)) FROM event WHERE row > ?1 AND row <= ?1 + head),
     updated_at = updated_at + 1 WHERE ordinal = ?2`,
  ).run(ordinal * positionsPerConversation, ordinal)
  // The fold of the log may have read the damaged event.
  db.prepare('UPDATE vault SET snapshot = NULL, snapshot_position = NULL WHERE ordinal = ?').run(ordinal)
}

/** The instant of the event, or of its neighbour where it would break the order of time. */
function plausibleInstant(db: DatabaseSync, row: number, instant: number | undefined): number {
  const neighbour = (at: number) =>
    rowsOf<[number]>(db, 'SELECT instant FROM event WHERE row = ?', at)[0]?.[0]
  const before = row % positionsPerConversation === 1 ? undefined : neighbour(row - 1)
  const after = neighbour(row + 1)
  const isInOrder =
    instant !== undefined && instant >= (before ?? 0) && instant <= (after ?? before ?? instant)
  return isInOrder ? instant : (before ?? after ?? Date.now() * 1_000)
}

function isFree(db: DatabaseSync, ordinal: number, id: string): boolean {
  const sql = 'SELECT 1 FROM event WHERE conversation = ? AND id = ?'
  return plausibleId.test(id) && rowsOf(db, sql, ordinal, id).length === 0
}

function facetNumber(db: DatabaseSync): number {
  const find = 'SELECT number FROM facet WHERE kind = ? AND source = ?'
  const [row] = rowsOf<[number]>(db, find, errorKind, source)
  if (row !== undefined) return row[0]
  const [[last] = [0]] = rowsOf<[number]>(db, 'SELECT coalesce(max(number >> 1), 0) FROM facet')
  const number = (last + 1) * 2
  db.prepare('INSERT INTO facet (number, kind, source) VALUES (?, ?, ?)').run(number, errorKind, source)
  return number
}

function copyFileDurably(from: string, to: string): void {
  copyFileSync(from, to, constants.COPYFILE_EXCL)
  chmodSync(to, 0o600)
  syncFile(to)
}
