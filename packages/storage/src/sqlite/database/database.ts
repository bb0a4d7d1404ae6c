import {
  accessSync,
  chmodSync,
  closeSync,
  constants,
  existsSync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { crc32 } from 'node:zlib'
import { Problem, storageUnavailableProblem } from '@slipway/protocol/problem'
import { compareSchema } from './compare-schema.ts'
import { FilePlace } from './file-place.ts'
import { openFailure } from './open-failure.ts'
import { movedProblem, toStorageProblem } from './storage-failure.ts'
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

/** How long a statement blocks the thread while another process holds a lock. */
const busyMs = 10
/** The same while a database is opened. */
const openBusyMs = 5_000
/** The value of `auto_vacuum` for INCREMENTAL. */
const incrementalMode = 2
const walChunkBytes = 1024 * 1024

/**
 * One SQLite file in WAL mode. Prepared statements are cached; rows are arrays in column order. A failure of
 * the disk
 * or a foreign lock is a Problem `storage_full` or `unavailable`, whose cause is the error of SQLite. SQL may
 * use `crc32_of(text)` and `checksum_of(value, ...)`.
 */
export class Database {
  readonly path: string
  readonly #options: DatabaseOptions
  #db: DatabaseSync
  #place: FilePlace | undefined
  readonly #statements = new Map<string, StatementSync>()

  constructor(path: string, options: DatabaseOptions) {
    this.path = path
    this.#options = options
    try {
      if (!options.readOnly && existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK)
      this.#db = this.#open(path)
    } catch (cause) {
      throw new Error(`${path} cannot be opened: ${openFailure(path, cause)}`, { cause })
    }
    if (options.readOnly) return
    try {
      this.#migrate(path, options.migrations)
      this.#assertSchema(options.migrations)
      this.#db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      this.#place = new FilePlace(path)
    } catch (error) {
      this.#closeAnyway()
      throw error
    }
  }

  prepare(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#db.prepare(sql)
      statement.setReturnArrays(true)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  run(sql: string, ...values: Value[]): void {
    try {
      this.prepare(sql).run(...values)
    } catch (error) {
      throw this.#failed(sql, error)
    }
  }

  get<R extends readonly unknown[]>(sql: string, ...values: Value[]): R | undefined {
    try {
      return this.prepare(sql).get(...values) as unknown as R | undefined
    } catch (error) {
      throw this.#failed(sql, error)
    }
  }

  all<R extends readonly unknown[]>(sql: string, ...values: Value[]): R[] {
    try {
      return this.prepare(sql).all(...values) as unknown as R[]
    } catch (error) {
      throw this.#failed(sql, error)
    }
  }

  /** Rows one by one. Each call has its own statement, so that iterations may be nested or left early. */
  *iterate<R extends readonly unknown[]>(sql: string, ...values: Value[]): Generator<R> {
    try {
      const statement = this.#db.prepare(sql)
      statement.setReturnArrays(true)
      yield* statement.iterate(...values) as unknown as Iterable<R>
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
  }

  /** The same with a cached statement: leave or finish an iteration before the next call. */
  *rows<R extends readonly unknown[]>(sql: string, ...values: Value[]): Generator<R> {
    try {
      yield* this.prepare(sql).iterate(...values) as unknown as Iterable<R>
    } catch (error) {
      throw this.#failed(sql, error)
    }
  }

  /** A statement that failed reports its error again at its next use: it is prepared again. */
  #failed(sql: string, error: unknown): unknown {
    this.#statements.delete(sql)
    return toStorageProblem(error, this.path)
  }

  /** Commits to the files that the next start finds, or rolls back and rethrows. */
  transaction<T>(work: () => T): T {
    try {
      this.#db.exec('BEGIN IMMEDIATE')
      const result = work()
      this.#db.exec('COMMIT')
      this.assertInPlace()
      return result
    } catch (error) {
      this.#rollBack()
      throw toStorageProblem(error, this.path)
    }
  }

  #rollBack(): void {
    try {
      if (this.#db.isOpen && this.#db.isTransaction) this.#db.exec('ROLLBACK')
    } catch {
      // SQLite has rolled back, or does so when the database is opened again.
    }
  }

  /** A part of the open transaction: rolls back its own writes when it throws, and rethrows. */
  savepoint<T>(work: () => T): T {
    try {
      this.#db.exec('SAVEPOINT nested')
      const result = work()
      this.#db.exec('RELEASE nested')
      return result
    } catch (error) {
      this.#rollBackNested()
      throw toStorageProblem(error, this.path)
    }
  }

  /** Where that fails, nothing of the transaction may be committed. */
  #rollBackNested(): void {
    try {
      // A full disk rolls back the whole transaction, and the savepoint with it.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK TO nested; RELEASE nested')
    } catch {
      this.#rollBack()
    }
  }

  pragma(name: string): unknown {
    return this.get<[unknown]>(`PRAGMA ${name}`)?.[0]
  }

  /** Drops the page cache: later reads come from the file, which the system keeps in memory. */
  releaseMemory(): void {
    if (this.#db.isOpen) this.#db.exec('PRAGMA shrink_memory')
  }

  /** Writes and syncs a page that stays as it is. Throws a Problem while the database cannot be written. */
  probe(): void {
    const version = Number(this.pragma('user_version'))
    this.transaction(() => this.#db.exec(`PRAGMA user_version = ${version}`))
  }

  /**
   * Throws a Problem when neither the first nor the last row of a table can be read: nothing leads to its
   * rows.
   */
  assertReadable(table: string): void {
    try {
      this.get(`SELECT rowid FROM ${table} ORDER BY rowid LIMIT 1`)
    } catch {
      this.get(`SELECT rowid FROM ${table} ORDER BY rowid DESC LIMIT 1`)
    }
  }

  /**
   * After a failed write or sync: moves everything that was committed into the file. What a failed sync left
   * in the
   * cache of the system alone is written again first, because a further sync would not do that.
   */
  repair(): void {
    try {
      // The one at the path may be in use by another server.
      if (this.isOpen) rewrite(`${this.path}-wal`, (stats) => this.#place?.isOpenWal(stats) === true)
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
    // What the probe leaves in the write-ahead log would be read as a part of a file that replaced this one.
    this.assertInPlace()
    this.probe()
  }

  /**
   * Opens what is at the path of the file now; never creates it. After a failure the file that was open stays
   * open for reads while it is in place; otherwise it is let go of first. `verify` throws for another
   * database than the one that was open, which is closed then: the next attempt must not take it for that
   * one.
   */
  reopen(verify: () => void = () => {}): void {
    const old = this.isOpen && this.isInPlace ? this.#db : undefined
    if (old === undefined) this.#closeAnyway()
    try {
      const db = this.#openExisting()
      this.#statements.clear()
      this.#db = db
      this.#place = new FilePlace(this.path)
      old?.close()
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
    try {
      verify()
    } catch (error) {
      this.#closeAnyway()
      if (error instanceof Problem) throw error
      throw storageUnavailableProblem(error instanceof Error ? error.message : String(error), error)
    }
  }

  #closeAnyway(): void {
    try {
      this.close()
    } catch {
      // A file of a device that is gone.
    }
  }

  #openExisting(): DatabaseSync {
    const url = pathToFileURL(this.path)
    url.searchParams.set('mode', 'rw')
    const db = this.#open(url)
    try {
      db.exec(`PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = ${busyMs}`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  }

  #open(path: string | URL): DatabaseSync {
    const { readOnly = false, cacheBytes, synchronous, isReclaimable = false } = this.#options
    const db = new DatabaseSync(path, { readOnly, timeout: openBusyMs })
    try {
      db.exec(`PRAGMA cache_size = -${Math.ceil(cacheBytes / 1024)}`)
      db.function('crc32_of', { deterministic: true }, (text) => crc32(String(text)))
      db.function('checksum_of', { deterministic: true, varargs: true }, (...values) =>
        valuesChecksum(values),
      )
      if (readOnly) return db
      closeToOthers(this.path)
      // Has an effect on an empty file only.
      if (isReclaimable) db.exec('PRAGMA auto_vacuum = INCREMENTAL')
      db.exec('PRAGMA journal_mode = WAL')
      db.exec(`PRAGMA synchronous = ${synchronous}`)
      db.exec(
        'PRAGMA wal_autocheckpoint = 2000; PRAGMA journal_size_limit = 33554432; PRAGMA temp_store = MEMORY',
      )
      return db
    } catch (error) {
      db.close()
      throw error
    }
  }

  /** The steps of SQLite's query plan, for tests. */
  plan(sql: string): string[] {
    return this.all<[number, number, number, string]>(`EXPLAIN QUERY PLAN ${sql}`).map(
      ([, , , detail]) => detail,
    )
  }

  /**
   * Free pages that `reclaim` can give back: none in files of earlier versions, which `slipway compact`
   * converts.
   */
  reclaimablePages(): number {
    return this.isReclaimable ? Number(this.pragma('freelist_count')) : 0
  }

  get isReclaimable(): boolean {
    return Number(this.pragma('auto_vacuum')) === incrementalMode
  }

  /**
   * Gives up to that many free pages back, in the open transaction; the file shrinks at the next checkpoint.
   */
  reclaim(maxPages: number): void {
    this.all(`PRAGMA incremental_vacuum(${maxPages})`)
  }

  /** Moves what was committed from the write-ahead log into the file, as far as no reader needs it there. */
  checkpointPassively(): void {
    this.all('PRAGMA wal_checkpoint(PASSIVE)')
  }

  /** Moves what was committed from the write-ahead log into the file, synced to disk. */
  checkpoint(): void {
    this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  get isOpen(): boolean {
    return this.#db.isOpen
  }

  /**
   * Throws a Problem when an open file was removed or replaced: the next start would not have what it has.
   */
  assertInPlace(): void {
    let moved: string | undefined
    try {
      moved = this.#place?.findMoved()
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
    if (moved !== undefined) throw movedProblem(moved)
  }

  /** Whether the open files are still at their paths, on a device that opens them. */
  get isInPlace(): boolean {
    try {
      // To close a descriptor of the database itself would drop SQLite's locks on it.
      closeSync(openSync(`${this.path}-wal`, 'r'))
      this.assertInPlace()
      return true
    } catch {
      return false
    }
  }

  close(): void {
    this.#statements.clear()
    if (this.#db.isOpen) this.#db.close()
  }

  /** Replaces the copy of an earlier attempt or upgrade, which may be older than the file. */
  #copyBeforeMigration(copy: string): void {
    const draft = `${copy}.draft`
    try {
      rmSync(draft, { force: true })
      this.#db.prepare('VACUUM INTO ?').run(draft)
      closeToOthers(draft)
      rewrite(draft)
      renameSync(draft, copy)
    } catch (cause) {
      rmSync(draft, { force: true, recursive: true })
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(
        `${this.path} has to be migrated, but the copy ${copy} cannot be made: ${reason}. Make room for it.`,
        { cause },
      )
    }
  }

  #assertSchema(migrations: readonly string[]): void {
    const difference = compareSchema(
      (sql, ...values) => [...this.iterate(sql, ...values)] as never,
      migrations,
    )
    if (difference !== undefined)
      throw new Error(
        `${this.path} is damaged: ${difference}. Restore it from a backup. See "slipway doctor".`,
      )
  }

  #migrate(path: string, migrations: readonly string[]): void {
    const from = Number(this.pragma('user_version'))
    if (from > migrations.length)
      throw new Error(
        `${path} was written by a newer version (its schema is ${from}, this version knows ${migrations.length}). Start that version, or restore a backup that was made before the upgrade.`,
      )
    if (from === migrations.length) return
    const copy = `${path}.v${from}.bak`
    if (from > 0) {
      this.#assertSchema(migrations.slice(0, from))
      this.#copyBeforeMigration(copy)
    }
    try {
      // All of them or none.
      this.transaction(() => {
        for (const [index, sql] of migrations.entries())
          if (index >= from) this.#db.exec(`${sql}; PRAGMA user_version = ${index + 1}`)
        this.#assertSchema(migrations)
      })
    } catch (cause) {
      // A commit that was reported as failed may be stored.
      if (Number(this.pragma('user_version')) === migrations.length) return
      if (from === 0) throw cause
      const reason = cause instanceof Error ? cause.message : String(cause)
      throw new Error(
        `${path} could not be migrated from version ${from} of its schema to ${migrations.length}: ${reason}. It is unchanged, and ${copy} is a copy of it: start the version that wrote it, or remove the cause and start again.`,
        { cause },
      )
    }
  }
}

/** Writes the bytes of a file over themselves and syncs them, if it is the one that is meant. */
function rewrite(path: string, isMeant: (stats: Stats) => boolean = () => true): void {
  if (!existsSync(path)) return
  const fd = openSync(path, 'r+')
  try {
    if (!isMeant(fstatSync(fd))) return
    const chunk = Buffer.alloc(walChunkBytes)
    for (let at = 0; ; ) {
      const size = readSync(fd, chunk, 0, chunk.length, at)
      if (size === 0) break
      writeSync(fd, chunk, 0, size, at)
      at += size
    }
    fsyncSync(fd)
  } finally {
    closeSync(fd)
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

/** Bytes of a BLOB as a Buffer, without copying. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
