import { existsSync } from 'node:fs'
import type { DatabaseSync } from 'node:sqlite'
import { messageTexts } from '@slipway/protocol/message-texts'
import { encodeParts } from '../../text/needle.ts'
import { bashMigrations } from '../bash-events/bash-events.ts'
import { readBody } from '../blobs/blobs.ts'
import { controlPlaneMigrations } from '../control-plane/schema.ts'
import { compareSchema } from '../database/compare-schema.ts'
import { Database } from '../database/database.ts'
import { verifyMark } from '../database/high-water-mark.ts'
import { logMigrations, uncheckedTables } from '../event-log/schema.ts'
import { indexMigrations } from '../event-log/text-sql.ts'
import { blobRows, openFile, rowsOf } from './open-file.ts'
import { checkFile, checkTable } from './verify-log.ts'

const migrations: Readonly<Record<string, readonly string[]>> = {
  'log.db': logMigrations,
  'bash.db': bashMigrations,
  'control.db': controlPlaneMigrations,
  'index.db': indexMigrations,
}

export interface DatabaseReport {
  readonly schema: number
  /** The schema version that this version of the program writes. */
  readonly current: number
  /** What the schema lacks or has in another form. */
  readonly schemaProblem: string | undefined
  /** What SQLite finds wrong. */
  readonly problems: readonly string[]
  /** The indexes were compared with the tables, which takes long in a large file. */
  readonly areIndexesCompared: boolean
}

/** In a report that is not thorough the indexes of a log with more events are not compared. */
const maxComparedEvents = 1_000_000

/** Reads a database of a data directory, also while a server uses it. Throws for a file that is none. */
export function inspectDatabase(path: string, name: string, isThorough: boolean): DatabaseReport {
  using db = openFile(path, { readOnly: true })
  const [[schema] = [0]] = rowsOf<[number]>(db, 'PRAGMA user_version')
  const own = migrations[name] ?? []
  const schemaProblem = compareSchema((...query) => rowsOf(db, ...query), own.slice(0, schema))
  const isLog = name === 'log.db' && !isThorough && schemaProblem === undefined
  const areIndexesCompared = isThorough || (isLog && countEvents(db) <= maxComparedEvents)
  const problems = checkFile(db, areIndexesCompared)
  if (isLog && !areIndexesCompared)
    for (const table of uncheckedTables) problems.push(...checkTable(db, table))
  return {
    schema,
    current: migrations[name]?.length ?? schema,
    schemaProblem,
    problems,
    areIndexesCompared,
  }
}

function countEvents(db: DatabaseSync): number {
  return rowsOf<[number]>(db, 'SELECT coalesce(sum(head), 0) FROM conversation')[0]?.[0] ?? 0
}

function openReadOnly(path: string): Database {
  return new Database(path, { readOnly: true, synchronous: 'FULL', cacheBytes: 1_000_000, migrations: [] })
}

/** What the log says that the high-water mark contradicts, as a text with the next step. */
export function inspectMark(markPath: string, logPath: string): string | undefined {
  if (!existsSync(markPath)) return undefined
  const db = openReadOnly(logPath)
  let isDamaged = false
  try {
    verifyMark(markPath, db, () => {
      isDamaged = true
    })
    return isDamaged
      ? `${markPath} is damaged: the next start cannot tell whether events are missing`
      : undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  } finally {
    db.close()
  }
}

export interface ConversationUsage {
  readonly id: string
  readonly events: number
  readonly bytes: number
}

export interface LogUsage {
  /** The largest first. */
  readonly conversations: readonly ConversationUsage[]
  /** Unpublished and removed, not yet purged. */
  readonly leftovers: number
  /** Space of the file that is free. */
  readonly free_bytes: number
}

/** What the conversations of a log take; the ids are those that the server answers to. */
export function readUsage(path: string): LogUsage {
  using db = openFile(path, { readOnly: true })
  const hasBytes =
    rowsOf(db, "SELECT 1 FROM pragma_table_info('conversation') WHERE name = 'bytes'").length > 0
  const sql = `SELECT id, head, ${hasBytes ? 'bytes' : '0'} AS bytes FROM conversation WHERE is_visible = 1 ORDER BY 3 DESC, id`
  const number = (sql: string) => rowsOf<[number]>(db, sql)[0]?.[0] ?? 0
  return {
    conversations: rowsOf<[string, number, number]>(db, sql).map(([id, events, bytes]) => ({
      id,
      events,
      bytes,
    })),
    leftovers: number('SELECT count(*) FROM leftover'),
    free_bytes: number('PRAGMA freelist_count') * number('PRAGMA page_size'),
  }
}

/**
 * What is wrong with the text index beside a log; undefined when nothing is, or when there is none. Thorough:
 * compares every indexed text with the log.
 */
export function inspectIndex(indexPath: string, logPath: string, isThorough: boolean): string | undefined {
  if (!existsSync(indexPath)) return undefined
  try {
    using index = openFile(indexPath, { readOnly: true })
    using log = openFile(logPath, { readOnly: true })
    // Before the log, which only continues.
    const indexed = rowsOf<[number, number]>(index, 'SELECT ordinal, upto FROM indexed')
    log.exec('BEGIN')
    const id = (db: typeof log) => rowsOf<[string]>(db, 'SELECT id FROM store')[0]?.[0]
    if (id(index) !== undefined && id(index) !== id(log)) return 'it belongs to another log'
    const heads = new Map(rowsOf<[number, number]>(log, 'SELECT ordinal, head FROM conversation'))
    if (indexed.some(([ordinal, upto]) => upto > (heads.get(ordinal) ?? upto)))
      return 'it is ahead of the log'
    const [problem] = checkFile(index, isThorough)
    if (problem !== undefined || !isThorough) return problem
    const find = log.prepare('SELECT body, facet, instant FROM event WHERE row = ?')
    const blobs = blobRows(log)
    const rows = index.prepare('SELECT row, parts, facet, instant FROM message ORDER BY row')
    for (const { row, parts, facet, instant } of rows.iterate()) {
      const event = find.get(row ?? 0)
      // It may be removed a moment later.
      if (event === undefined) continue
      const texts = messageTexts(JSON.parse(readBody(blobs, event.body as Uint8Array).toString('utf8')))
      const isSame = event.facet === facet && event.instant === instant
      if (!isSame || !encodeParts(texts).bytes.equals(parts as Uint8Array))
        return 'a text in it is not that of the log'
    }
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
