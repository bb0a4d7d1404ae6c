import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs'
import { basename } from 'node:path'
import type { StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { Problem, storageUnavailableProblem } from '@slipway/protocol/problem'
import {
  busyMs,
  type Connection,
  type DatabaseOptions,
  openConnection,
  openReader,
  type Value,
} from './connection.ts'
import { FilePlace } from './file-place.ts'
import { migrateSchema } from './migrate-schema.ts'
import { openFailure } from './open-failure.ts'
import { inSavepoint } from './savepoint.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { movedProblem, toStorageProblem } from './storage-failure.ts'
import type { DurablePoint } from './wal/durable-point.ts'
import { WriteAheadLog } from './wal/write-ahead-log.ts'

export type { Value } from './connection.ts'

/** The value of `auto_vacuum` for INCREMENTAL. */
const incrementalMode = 2
/** Page cache of the connection that reads what there was before an unsynced commit. */
const cacheBytesBefore = 1024 * 1024

/**
 * One SQLite file in WAL mode. Prepared statements are cached; rows are arrays in column order. A failure of
 * the disk or a foreign lock is a Problem `storage_full` or `unavailable`, whose cause is the error of
 * SQLite. SQL may use `crc32_of(text)` and `checksum_of(value, ...)`.
 *
 * `transaction` syncs on the calling thread. `commitGroup` does so while syncs are fast (`SyncPace`);
 * otherwise it writes, and resolves when another thread has synced that. Reads come meanwhile from a second
 * connection that stays at the state before the commit, so no one sees what may be lost. When such a sync
 * fails the outcome is unknown, and the system may have dropped what it could not write: the index of the
 * write-ahead log may name pages that are missing any more. Such a commit is never checkpointed: the
 * connection is closed. `repair` writes the log again, makes sure that it has everything that was
 * acknowledged, and takes what has the right checksums while no one else has the file open. See
 * docs/decisions/0047-syncs-off-the-event-loop.md.
 */
export class Database {
  readonly path: string
  readonly #options: DatabaseOptions
  #main: Connection
  /** Held from before an unsynced commit until it is synced. */
  readonly #before = new SnapshotReader(() => this.#openBefore())
  #isWriting = false
  /** The last sync failed. */
  #isDoubtful = false
  #place: FilePlace | undefined
  readonly #wal: WriteAheadLog
  /** Work of other threads on the files: they may not be closed meanwhile. */
  #working: Promise<unknown> | undefined

  constructor(path: string, options: DatabaseOptions) {
    this.path = path
    this.#options = options
    this.#wal = new WriteAheadLog(path, () => this.#place)
    try {
      if (!options.readOnly && existsSync(path)) accessSync(path, constants.R_OK | constants.W_OK)
      this.#main = openConnection(path, this.path, this.#options)
    } catch (cause) {
      throw new Error(`${path} cannot be opened: ${openFailure(path, cause)}`, { cause })
    }
    if (options.readOnly) return
    try {
      migrateSchema(this, options.migrations, (sql) => this.#main.db.exec(sql))
      this.#main.db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      this.#place = new FilePlace(path)
    } catch (error) {
      this.#closeAnyway()
      throw error
    }
  }

  prepare(sql: string): StatementSync {
    const { db, statements } = this.#connection
    let statement = statements.get(sql)
    if (statement === undefined) {
      statement = db.prepare(sql)
      statement.setReturnArrays(true)
      statements.set(sql, statement)
    }
    return statement
  }

  get #connection(): Connection {
    return (this.#isWriting ? undefined : this.#before.held) ?? this.#main
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
      const statement = this.#connection.db.prepare(sql)
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
    this.#connection.statements.delete(sql)
    return toStorageProblem(error, this.path)
  }

  /** Commits to the files that the next start finds, synced, or rolls back and rethrows. */
  transaction<T>(work: () => T): T {
    const result = this.#commit(work, (commit) => this.#wal.commitSynced(commit))
    this.assertInPlace()
    return result
  }

  /**
   * The same for a group of changes, one group after the other: resolves when it is durable, and seen. While
   * syncs are slow the disk is not on the calling thread.
   */
  async commitGroup(work: () => void): Promise<void> {
    if (this.#isDoubtful)
      throw storageUnavailableProblem(`${basename(this.path)} cannot be used: its last sync failed`)
    if (this.#wal.isFast) this.#commit(work, (commit) => this.#wal.commitSynced(commit))
    else {
      this.#commitUnsynced(work)
      await this.#whileWorking(this.#sync())
    }
    this.assertInPlace()
  }

  #commitUnsynced(work: () => void): void {
    try {
      this.assertInPlace()
      this.#wal.prepare()
      this.#before.hold()
      this.#main.db.exec('PRAGMA synchronous = NORMAL')
      try {
        this.#commit(work, (commit) => this.#wal.commitUnsynced(commit))
      } finally {
        this.#main.db.exec(`PRAGMA synchronous = ${this.#options.synchronous}`)
      }
    } catch (error) {
      this.#before.release()
      throw toStorageProblem(error, this.path)
    }
  }

  async #sync(): Promise<void> {
    try {
      await this.#wal.sync()
      this.#before.release()
    } catch (error) {
      this.#doubt()
      throw toStorageProblem(error, this.path)
    }
  }

  /** Whether reads and writes in this moment belong to an open transaction. */
  get isWriting(): boolean {
    return this.#isWriting
  }

  get durable(): DurablePoint {
    return this.#wal.durable
  }

  #commit<T>(work: () => T, around: (commit: () => void) => void): T {
    const { db } = this.#main
    let isCommitting = false
    try {
      db.exec('BEGIN IMMEDIATE')
      this.#isWriting = true
      const result = work()
      isCommitting = true
      around(() => db.exec('COMMIT'))
      return result
    } catch (error) {
      if (isCommitting) this.#wal.distrust()
      this.#rollBack()
      throw toStorageProblem(error, this.path)
    } finally {
      this.#isWriting = false
    }
  }

  #rollBack(): void {
    try {
      const { db } = this.#main
      if (db.isOpen && db.isTransaction) db.exec('ROLLBACK')
    } catch {
      // SQLite has rolled back, or does so when the database is opened again.
    }
  }

  #openBefore(): Connection {
    this.#main.db.exec('PRAGMA wal_autocheckpoint = 0')
    // What is at the path may be another file by now.
    return this.#openReader(() => this.assertInPlace())
  }

  #openReader(verify?: () => void): Connection {
    return openReader(this.path, { ...this.#options, cacheBytes: cacheBytesBefore }, verify)
  }

  /** Reads continue. Another connection is open, so SQLite makes no checkpoint when this one is closed. */
  #doubt(): void {
    this.#isDoubtful = true
    this.#wal.close()
    this.#closeMain()
  }

  #closeMain(): void {
    this.#main.statements.clear()
    if (this.#main.db.isOpen) this.#main.db.close()
  }

  async #whileWorking<T>(work: Promise<T>): Promise<T> {
    this.#working = work
    try {
      return await work
    } finally {
      this.#working = undefined
    }
  }

  /** Whether another thread works on the files. */
  get isWorking(): boolean {
    return this.#working !== undefined
  }

  /** Resolves when no other thread works on the files. */
  async settled(): Promise<void> {
    while (this.#working !== undefined) await this.#working.catch(() => {})
  }

  /** `inSavepoint`. */
  savepoint<T>(work: () => T): T {
    try {
      return inSavepoint(this.#connection.db, work, () => this.#rollBack())
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
  }

  pragma(name: string): unknown {
    return this.get<[unknown]>(`PRAGMA ${name}`)?.[0]
  }

  /** Drops the page cache: later reads come from the file, which the system keeps in memory. */
  releaseMemory(): void {
    this.#before.releaseMemory()
    if (this.#main.db.isOpen) this.#main.db.exec('PRAGMA shrink_memory')
  }

  /** Writes and syncs a page that stays as it is. Throws a Problem while the database cannot be written. */
  probe(): void {
    const version = Number(this.pragma('user_version'))
    this.transaction(() => this.#main.db.exec(`PRAGMA user_version = ${version}`))
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
   * After a failed write or sync, when no other thread works on the files: moves everything that was
   * committed into the file. What a failed sync left in the cache of the system alone is written again first,
   * because a further sync would not do that.
   */
  repair(): void {
    try {
      if (this.#isDoubtful) {
        this.#recover()
        this.#use(this.#openExisting())
      } else if (this.isOpen) this.#wal.rewrite()
      this.checkpoint()
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
    // What the probe leaves in the write-ahead log would be read as a part of a file that replaced this one.
    this.assertInPlace()
    this.probe()
  }

  /**
   * After a failed sync, in place. Reads continue while the log cannot be written, and where it lacks what
   * was acknowledged: it stays as it is then. Otherwise all connections are closed, the last one by one that
   * only reads, which makes no checkpoint.
   */
  #recover(): void {
    this.assertInPlace()
    if (this.isOpen) this.#wal.rewrite()
    this.#wal.assertWhole()
    this.#closeAnyway()
    this.#wal.recoverAlone()
  }

  #use(connection: Connection): void {
    this.#main = connection
    this.#isDoubtful = false
    this.#place = new FilePlace(this.path)
  }

  /**
   * Opens what is at the path of the file now; never creates it. After a failure the file that was open stays
   * open for reads while it is in place; otherwise it is let go of first. `verify` throws for another
   * database than the one that was open, or for one that lacks what was acknowledged; it is closed then, as
   * it is: the next attempt must not take it for that one.
   */
  reopen(verify: () => void = () => {}): void {
    let reader: Connection | undefined
    try {
      const { isInPlace } = this
      if (this.#isDoubtful && isInPlace) this.#recover()
      const old = this.isOpen && isInPlace ? this.#main.db : undefined
      if (old === undefined) this.#closeAnyway()
      this.#wal.close()
      this.#before.close()
      // What is refused keeps its write-ahead log: the last connection that is closed only reads.
      reader = this.#openReader()
      const connection = this.#openExisting(old !== undefined)
      this.#use(connection)
      old?.close()
      this.#accept(verify)
    } catch (error) {
      throw toStorageProblem(error, this.path)
    } finally {
      reader?.db.close()
    }
  }

  #accept(verify: () => void): void {
    try {
      verify()
      this.checkpoint()
    } catch (error) {
      this.#closeAnyway()
      const problem = toStorageProblem(error, this.path)
      if (problem instanceof Problem) throw problem
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

  #openExisting(isWritten = false): Connection {
    const url = pathToFileURL(this.path)
    url.searchParams.set('mode', 'rw')
    const connection = openConnection(url, this.path, this.#options)
    try {
      if (isWritten) connection.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
      connection.db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      return connection
    } catch (error) {
      connection.db.close()
      throw error
    }
  }

  /** The steps of SQLite's query plan, for tests. */
  plan(sql: string): string[] {
    return this.all<[number, number, number, string]>(`EXPLAIN QUERY PLAN ${sql}`).map((row) => row[3])
  }

  /** Free pages that `reclaim` can give back: none in files of earlier versions (see `slipway compact`). */
  reclaimablePages(): number {
    return this.isReclaimable ? Number(this.pragma('freelist_count')) : 0
  }

  get isReclaimable(): boolean {
    return Number(this.pragma('auto_vacuum')) === incrementalMode
  }

  /** Gives up to that many free pages back, in the open transaction; a checkpoint shrinks the file. */
  reclaim(maxPages: number): void {
    this.all(`PRAGMA incremental_vacuum(${maxPages})`)
  }

  /** Moves what was committed from the write-ahead log into the file, as far as no reader needs it there. */
  checkpointPassively(): void {
    this.all('PRAGMA wal_checkpoint(PASSIVE)')
  }

  /** Moves what was committed from the write-ahead log into the file, synced to disk. */
  checkpoint(): void {
    this.#main.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    this.#wal.noteCheckpoint()
  }

  /** Whether the write-ahead log has that many pages that they should be moved into the file. */
  isCheckpointDue(): boolean {
    return this.#wal.isCheckpointDue()
  }

  /** `checkpoint` in another thread; nothing may be written meanwhile. Whether no reader held it up. */
  async checkpointInThread(isWanted: boolean): Promise<boolean> {
    try {
      this.assertInPlace()
      return await this.#whileWorking(this.#wal.checkpointInThread(isWanted))
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
  }

  /** Of reads at least. */
  get isOpen(): boolean {
    return this.#main.db.isOpen || this.#before.held !== undefined
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

  /** When no other thread works on the files. */
  close(): void {
    this.#wal.close()
    try {
      this.#before.close()
    } finally {
      this.#closeMain()
    }
  }
}

/** Bytes of a BLOB as a Buffer, without copying. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
