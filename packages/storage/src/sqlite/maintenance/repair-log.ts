import { randomUUID } from 'node:crypto'
import { chmodSync, constants, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { serializeEvent } from '../../event-log/serialize-event.ts'
import { readBody } from '../blobs/blobs.ts'
import { wholeLengthSql } from '../blobs/stored-body.ts'
import { compareSchema, type ReadRows } from '../database/compare-schema.ts'
import { findDamagedPages, rebuildIndexes } from '../database/damaged-pages.ts'
import { valuesChecksum } from '../database/values-checksum.ts'
import { eventChecksum } from '../event-log/checksum.ts'
import { checkedColumns } from '../event-log/conversation-row.ts'
import { logMigrations } from '../event-log/schema.ts'
import { blobRows, openFile, rowsOf, syncFile } from './open-file.ts'
import { dropUnpublished } from './unpublished.ts'
import {
  checkFile,
  type DamagedEvent,
  endReason,
  maxFindings,
  surplusReason,
  verifyOpenLog,
} from './verify-log.ts'

export interface RepairResult {
  /** Each was replaced by a ConversationErrorEvent at its position. */
  readonly damaged: readonly DamagedEvent[]
  /** Conversations whose end was wrong: their logs have the events behind it again. */
  readonly extended: readonly string[]
  /** Conversations whose record did not match its checksum: it stays, with a new checksum. */
  readonly records: readonly string[]
  /** Events of unpublished imports and removed conversations that were dropped. */
  readonly dropped: number
  /** What SQLite found wrong in the file before its indexes and pages were made again. */
  readonly rebuilt: readonly string[]
  /** What could not be repaired. */
  readonly problems: readonly string[]
}

type EventRow = readonly [id: string, instant: number, body: Uint8Array]

const documentIndex = 'sqlite_autoindex_document_1'
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
  const difference = compareSchema((...query) => rowsOf(db, ...query), logMigrations.slice(0, version))
  if (difference !== undefined) return { ...nothingDone, rebuilt: [], problems: [difference] }
  const rebuilt = checkFile(db, true)
  if (rebuilt.length > 0) rebuilt.push(...rebuild(db, path, directory))
  const problems = rebuilt.length > 0 ? checkFile(db, true) : []
  if (problems.length > 0) return { ...nothingDone, rebuilt, problems }
  db.exec('BEGIN IMMEDIATE')
  const dropped = dropUnpublished(db)
  const ends = verifyOpenLog(db).damaged.filter(isEnd)
  const extended = [...new Set(ends.map(({ conversation }) => conversation))]
  for (const conversation of extended) extendLog(db, conversation)
  const { damaged, records } = verifyOpenLog(db)
  if (damaged.length >= maxFindings || damaged.some(isEnd)) {
    db.exec('ROLLBACK')
    const problem = 'more events are damaged than can be set aside'
    return { ...nothingDone, rebuilt, problems: [problem] }
  }
  // All are set aside first, so that a replacement takes its instant from events that are right.
  const gaps = damaged.map((event) => setAside(db, directory, event))
  for (const gap of gaps) fillGap(db, gap)
  // An event that was replaced may have another instant.
  for (const conversation of new Set(damaged.map(({ conversation }) => conversation)))
    extendLog(db, conversation)
  for (const conversation of records) acceptRecord(db, conversation)
  db.exec('COMMIT; PRAGMA wal_checkpoint(TRUNCATE)')
  return { damaged, extended, records, dropped, rebuilt, problems }
}

const nothingDone = { damaged: [], extended: [], records: [], dropped: 0 }

/** The values cannot be known any more: those that are there count from now on. */
function acceptRecord(db: DatabaseSync, conversation: string): void {
  const sql = `SELECT ${checkedColumns} FROM conversation WHERE id = ? AND is_visible = 1`
  const [values = []] = rowsOf<(string | number | null)[]>(db, sql, conversation)
  db.prepare('UPDATE conversation SET checksum = ? WHERE id = ? AND is_visible = 1').run(
    valuesChecksum(values),
    conversation,
  )
}

function isEnd({ reason }: DamagedEvent): boolean {
  return reason === surplusReason || reason === endReason
}

/** Events and the end of the log are written together, so an event behind the end was acknowledged. */
function extendLog(db: DatabaseSync, conversation: string): void {
  db.prepare(
    `UPDATE conversation SET
       head = (SELECT max(row) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1) - ordinal * ?1,
       last_instant = (SELECT max(instant) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1),
       bytes = (SELECT sum(${wholeLengthSql('body')}) FROM event WHERE row > ordinal * ?1 AND row < (ordinal + 1) * ?1)
     WHERE id = ?2 AND is_visible = 1`,
  ).run(positionsPerConversation, conversation)
}

/**
 * Indexes and free pages are made again from the tables, after a copy of the file. Documents on damaged pages
 * are removed, and returned as sentences.
 */
function rebuild(db: DatabaseSync, path: string, directory: string): string[] {
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  // Moves the write-ahead log into the file, so that the copy is complete.
  attempt(() => db.exec('PRAGMA wal_checkpoint(TRUNCATE)'))
  copyFileDurably(path, join(directory, 'log.db'))
  const read: ReadRows = (sql, ...values) => rowsOf(db, sql, ...values) as never
  const damaged = findDamagedPages(read, { tables: [], isThorough: true })
  const names = new Set(damaged.flatMap(({ name, isRebuildable }) => (isRebuildable ? name : [])))
  if (names.size > 0) attempt(() => rebuildIndexes(path, [...names]))
  const lost: string[] = []
  if (damaged.some(({ name, isRoot }) => name === 'document' && !isRoot))
    attempt(() => lost.push(...copyReadableDocuments(path)))
  attempt(() => db.exec('REINDEX'))
  attempt(() => db.exec('VACUUM'))
  return lost.map((name) => `the document ${name} cannot be read and was removed`)
}

/** Makes the table again from the documents that can be read; returns the names of the others. */
function copyReadableDocuments(path: string): string[] {
  const { readable, lost, sql } = readDocuments(path)
  using db = new DatabaseSync(path, { defensive: false })
  // DROP TABLE would read the damaged pages, and CREATE TABLE could move them before VACUUM.
  db.exec(`BEGIN IMMEDIATE;
    PRAGMA writable_schema = ON;
    DELETE FROM sqlite_schema WHERE tbl_name = 'document';
    PRAGMA writable_schema = RESET;
    COMMIT;
    VACUUM;
    BEGIN IMMEDIATE`)
  db.exec(sql)
  const add = db.prepare('INSERT INTO document (user, name, sealed) VALUES (?, ?, ?)')
  for (const row of readable) add.run(...row)
  db.exec('COMMIT')
  return lost
}

/** With its own connection: one that has met a damaged page does not change the schema. */
function readDocuments(path: string) {
  using db = openFile(path, { readOnly: true })
  // The index has the names.
  const namesSql = `SELECT rowid, name FROM document INDEXED BY ${documentIndex}`
  const readable: [string, string, Uint8Array][] = []
  const lost = rowsOf<[number, string]>(db, namesSql).flatMap(([row, name]) => {
    try {
      const sql = 'SELECT user, name, sealed FROM document WHERE rowid = ?'
      readable.push(...rowsOf<[string, string, Uint8Array]>(db, sql, row))
      return []
    } catch {
      return [name]
    }
  })
  const [[sql] = ['']] = rowsOf<[string]>(db, "SELECT sql FROM sqlite_schema WHERE name = 'document'")
  return { readable, lost, sql }
}

function attempt(work: () => void): void {
  try {
    work()
  } catch {
    // What remains is found by the next check.
  }
}

interface Gap {
  readonly event: DamagedEvent
  readonly ordinal: number
  readonly row: number
  /** What was set aside, unless it was missing. */
  readonly damaged: EventRow | undefined
}

function setAside(db: DatabaseSync, directory: string, event: DamagedEvent): Gap {
  const { conversation, position } = event
  const find = 'SELECT ordinal FROM conversation WHERE id = ? AND is_visible = 1'
  const [[ordinal] = [0]] = rowsOf<[number]>(db, find, conversation)
  const row = ordinal * positionsPerConversation + position
  const [damaged] = rowsOf<EventRow>(
    db,
    'SELECT id, CAST(instant AS REAL), body FROM event WHERE row = ?',
    row,
  )
  if (damaged !== undefined) {
    mkdirSync(directory, { recursive: true, mode: 0o700 })
    const file = join(directory, `${conversation.replaceAll(/[^\w-]/g, '_')}-${position}`)
    writeFileSync(file, readBody(blobRows(db), damaged[2]), { mode: 0o600, flag: 'wx' })
    syncFile(file)
  }
  db.prepare('DELETE FROM event WHERE row = ?').run(row)
  return { event, ordinal, row, damaged }
}

/** Puts an event about the damage in the place of one that was set aside. Lower gaps are filled before. */
function fillGap(db: DatabaseSync, { event, ordinal, row, damaged }: Gap): void {
  const instant = plausibleInstant(db, row, damaged?.[1])
  const storedId = damaged !== undefined && isFree(db, ordinal, damaged[0]) ? damaged[0] : randomUUID()
  const detail = `Event ${event.position} ${event.reason}. It was set aside by "slipway doctor --repair".`
  const body = serializeEvent({ kind: errorKind, source, code, detail }, storedId, instant)
  db.prepare(
    'INSERT INTO event (row, conversation, id, instant, facet, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)',
  ).run(
    row,
    ordinal,
    storedId,
    instant,
    facetNumber(db),
    body,
    eventChecksum(row, storedId, { instant }, body),
  )
  db.prepare('UPDATE conversation SET updated_at = updated_at + 1 WHERE ordinal = ?').run(ordinal)
  // The fold of the log may have read the damaged event.
  db.prepare('UPDATE vault SET snapshot = NULL, snapshot_position = NULL WHERE ordinal = ?').run(ordinal)
}

/** The instant of the event, or of its neighbour where it would break the order of time. */
function plausibleInstant(db: DatabaseSync, row: number, instant: number | undefined): number {
  const base = row - (row % positionsPerConversation)
  const before = neighbour(db, 'row > ? AND row < ? ORDER BY row DESC', base, row)
  const after = neighbour(db, 'row > ? AND row < ? ORDER BY row', row, base + positionsPerConversation)
  const highest = after ?? before
  const isInOrder =
    instant !== undefined && highest !== undefined && instant >= (before ?? 0) && instant <= highest
  return isInOrder ? instant : (before ?? after ?? Date.now() * 1_000)
}

function neighbour(db: DatabaseSync, where: string, low: number, high: number): number | undefined {
  return rowsOf<[number]>(db, `SELECT instant FROM event WHERE ${where} LIMIT 1`, low, high)[0]?.[0]
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
