import { chmodSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { crc32 } from 'node:zlib'
import { valuesChecksum } from './values-checksum.ts'

export type Value = SQLInputValue

export interface DatabaseOptions {
  readonly readOnly?: boolean
  readonly synchronous: 'FULL' | 'NORMAL'
  /** Upper bound of the page cache. */
  readonly cacheBytes: number
  /** A new file can give free pages back, with `reclaim`. */
  readonly isReclaimable?: boolean
  /** The schema; the file's `user_version` is the number of migrations applied. */
  readonly migrations: readonly string[]
}

/** Statements are prepared once. */
export interface Connection {
  readonly db: DatabaseSync
  readonly statements: Map<string, StatementSync>
}

/** How long a statement waits for a lock of another process while a database is opened. */
const openBusyMs = 5_000
/** How long a statement blocks the thread while another process holds a lock, later. */
export const busyMs = 10

/** Opens a file in WAL mode. @param address of the file at `path`. */
export function openConnection(
  address: string | URL,
  path: string,
  { readOnly = false, cacheBytes, synchronous, isReclaimable = false }: DatabaseOptions,
): Connection {
  const db = new DatabaseSync(address, { readOnly, timeout: openBusyMs })
  const connection = { db, statements: new Map() }
  try {
    db.exec(`PRAGMA cache_size = -${Math.ceil(cacheBytes / 1024)}`)
    db.function('crc32_of', { deterministic: true }, (text) => crc32(String(text)))
    db.function('checksum_of', { deterministic: true, varargs: true }, (...values) => valuesChecksum(values))
    if (readOnly) return connection
    closeToOthers(path)
    // Has an effect on an empty file only.
    if (isReclaimable) db.exec('PRAGMA auto_vacuum = INCREMENTAL')
    db.exec('PRAGMA journal_mode = WAL')
    db.exec(`PRAGMA synchronous = ${synchronous}`)
    db.exec(
      'PRAGMA wal_autocheckpoint = 2000; PRAGMA journal_size_limit = 33554432; PRAGMA temp_store = MEMORY',
    )
    // What is deleted is overwritten. FAST would keep it in free pages.
    db.exec('PRAGMA secure_delete = ON')
    return connection
  } catch (error) {
    db.close()
    throw error
  }
}

/** One that only reads: when it is closed it makes no checkpoint. */
export function openReader(
  path: string,
  options: DatabaseOptions,
  verify: () => void = () => {},
): Connection {
  const connection = openConnection(path, path, { ...options, readOnly: true })
  try {
    // Reads, and has the lock of readers from then on.
    connection.db.exec(`PRAGMA busy_timeout = ${busyMs}; PRAGMA user_version`)
    verify()
    return connection
  } catch (error) {
    connection.db.close()
    throw error
  }
}

/** For the server's user alone; SQLite gives its -wal and -shm files the same mode. */
export function closeToOthers(path: string): void {
  try {
    chmodSync(path, 0o600)
  } catch {
    // The file of another user has the mode that they chose.
  }
}
