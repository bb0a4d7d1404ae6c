import { chmodSync, closeSync, existsSync, fsyncSync, openSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import type { BlobRows } from '../blobs/blobs.ts'

const busyMs = 10_000

/** Rows as arrays in column order. */
export function rowsOf<R extends readonly unknown[]>(
  db: DatabaseSync,
  sql: string,
  ...values: SQLInputValue[]
): R[] {
  const statement = db.prepare(sql)
  statement.setReturnArrays(true)
  return statement.all(...values) as unknown as R[]
}

/** For `readBody`. */
export function blobRows(db: DatabaseSync): BlobRows {
  return {
    get: <R extends readonly unknown[]>(sql: string, ...values: SQLInputValue[]) =>
      rowsOf<R>(db, sql, ...values)[0],
  }
}

/** Opens a database file that exists, for maintenance. Throws an Error that names the file. */
export function openFile(path: string, { readOnly }: { readonly readOnly: boolean }): DatabaseSync {
  try {
    if (!existsSync(path)) throw new Error('there is no such file')
    const db = new DatabaseSync(path, { readOnly, timeout: busyMs })
    db.prepare('SELECT count(*) FROM sqlite_master').get()
    return db
  } catch (cause) {
    throw new Error(`${path} cannot be opened: ${cause instanceof Error ? cause.message : cause}`, { cause })
  }
}

/**
 * Writes a compact copy of a database, as it is at one moment, while other processes use it. The copy is
 * synced and for this user alone. Rejects an existing target.
 */
export function copyDatabase(source: string, target: string): void {
  using db = openFile(source, { readOnly: true })
  try {
    db.prepare('VACUUM INTO ?').run(target)
  } catch (cause) {
    throw new Error(`${source} cannot be copied: ${cause instanceof Error ? cause.message : cause}`, {
      cause,
    })
  }
  chmodSync(target, 0o600)
  syncFile(target)
}

export function syncFile(path: string): void {
  const fd = openSync(path, 'r+')
  try {
    fsyncSync(fd)
  } finally {
    closeSync(fd)
  }
}
