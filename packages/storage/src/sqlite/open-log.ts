import { statSync } from 'node:fs'
import { dirname } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import type { ReadRows } from './database/compare-schema.ts'
import {
  type DamagedPage,
  findDamagedPages,
  keepAside,
  rebuildIndexes,
  setAside,
} from './database/damaged-pages.ts'
import { Database } from './database/database.ts'
import { logMigrations, uncheckedTables } from './event-log/schema.ts'

/** SQLite's page cache of log.db. */
const cacheBytes = 8 * 1024 * 1024
/** A start makes indexes of larger files not again: it would take minutes. */
const defaultMaxRebuiltBytes = 1024 ** 3

/**
 * Opens log.db. Indexes with damaged pages are made again from their tables; damaged pages of events and
 * records are logged, and cost the conversations on them. Throws an Error with the next step where the log
 * cannot be used without the page.
 */
export function openLog(path: string, log: LogFunction, maxRebuiltBytes = defaultMaxRebuiltBytes): Database {
  const open = () =>
    new Database(path, { synchronous: 'FULL', cacheBytes, isReclaimable: true, migrations: logMigrations })
  let db = open()
  try {
    let state = assess(db)
    if (state.indexes.length > 0 || state.isMapWrong) {
      db.close()
      rebuild(path, state.indexes, { log, maxRebuiltBytes })
      db = open()
      state = assess(db)
    }
    const { damaged, problem } = state
    if (damaged.length > 0)
      log('error', 'pages of log.db are damaged: what is on them is lost to reads until it is repaired', {
        file: path,
        pages: damaged.map(({ name, page = 'a long value' }) => `${page} of ${name}`).join(', '),
        next: nextStep(path),
      })
    if (problem !== undefined) throw new Error(`${path} is damaged: ${problem}. ${nextStep(path)}`)
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

/** The next step for a damaged log. */
export function nextStep(path: string): string {
  return `Repair it: slipway doctor --repair --data ${dirname(path)}, or restore it from a backup.`
}

/** `problem`: why the log cannot be used. */
function assess(db: Database) {
  const read: ReadRows = (sql, ...values) => db.all(sql, ...values)
  const damaged = findDamagedPages(read, { tables: uncheckedTables })
  const problem = findProblem(db, damaged)
  return {
    damaged,
    problem,
    indexes: [...new Set(damaged.flatMap(({ name, isRebuildable }) => (isRebuildable ? name : [])))],
    // Which page belongs to which: made again with the file.
    isMapWrong: problem?.includes('ptrmap') ?? false,
  }
}

function rebuild(
  path: string,
  indexes: readonly string[],
  { log, maxRebuiltBytes }: { readonly log: LogFunction; readonly maxRebuiltBytes: number },
): void {
  try {
    if (statSync(path).size > maxRebuiltBytes) throw new Error('the file is too large for it at a start')
    const before = setAside(path)
    rebuildIndexes(path, indexes)
    const copy = keepAside(before)
    const made = indexes.length > 0 ? indexes.join(', ') : 'the map of its pages'
    log('error', 'indexes of log.db were damaged, and were made again from their tables', {
      file: path,
      indexes: made,
      copy,
    })
  } catch (error) {
    log('error', 'damaged indexes of log.db cannot be made again', {
      file: path,
      error: String(error),
      next: nextStep(path),
    })
  }
}

/** An index that hides a conversation would let another one be made in its place. */
function findProblem(db: Database, damaged: readonly DamagedPage[]): string | undefined {
  for (const table of uncheckedTables) {
    const pages = damaged.filter(({ name }) => name === table)
    // The indexes have all ids and names: what is on damaged pages is refused by name.
    if (
      (table === 'conversation' || table === 'document') &&
      pages.length > 0 &&
      pages.every(({ isRoot }) => !isRoot)
    )
      continue
    const problem = checkTable(db, table)
    if (problem !== 'ok') return `table ${table}, ${problem}`
  }
  return undefined
}

function checkTable(db: Database, table: string): string {
  try {
    return db.get<[string]>(`PRAGMA integrity_check(${table})`)?.[0] ?? 'ok'
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}
