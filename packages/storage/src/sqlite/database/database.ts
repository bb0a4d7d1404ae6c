import { accessSync, closeSync, constants, existsSync, openSync } from 'node:fs'
import { basename } from 'node:path'
import type { StatementSync } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { Problem, storageUnavailableProblem } from '@slipway/protocol/problem'
import { type Connection, type DatabaseOptions, openConnection, type Value } from './connection.ts'
import { FilePlace } from './file-place.ts'
import { migrateSchema } from './migrate-schema.ts'
import { openFailure } from './open-failure.ts'
import { SnapshotReader } from './snapshot-reader.ts'
import { movedProblem, toStorageProblem } from './storage-failure.ts'
import { checkpointInThread } from './wal/checkpoint-thread.ts'
import { rewrite, WalFile } from './wal/wal-file.ts'

export type { Value } from './connection.ts'

/** How long a statement blocks the thread while another process holds a lock. */
const busyMs = 10
/** The value of `auto_vacuum` for INCREMENTAL. */
const incrementalMode = 2
/** The write-ahead log is moved into the database when it has this many pages more than the last time. */
const framesPerCheckpoint = 2_000
/** Page cache of the connection that reads what there was before an unsynced commit. */
const cacheBytesBefore = 1024 * 1024

/**
 * One SQLite file in WAL mode. Prepared statements are cached; rows are arrays in column order. A failure of
 * the disk or a foreign lock is a Problem `storage_full` or `unavailable`, whose cause is the error of SQLite.
 * SQL may use `crc32_of(text)` and `checksum_of(value, ...)`.
 *
 * `transaction` syncs on the calling thread. Group commits keep the disk off it: `commitUnsynced` writes,
 * `sync` resolves when the disk has it, and `checkpointInThread` moves the write-ahead log. Between the first
 * two, reads come from a second connection that stays at the state before the commit, so nobody sees what may
 * be lost. When the sync fails the outcome is unknown, and the system may have dropped what it could not
 * write: the index of the write-ahead log may name pages that are not there any more. Such a commit is never
 * checkpointed: the connection is closed, and a new one takes what has the right checksums after the log was
 * written again (`repair`). See docs/decisions/0047-syncs-off-the-event-loop.md.
 */
export class Database {
  readonly path: string
  readonly #options: DatabaseOptions
  #main: Connection
  #place: FilePlace | undefined
  /** Held from before an unsynced commit until it is synced. */
  readonly #before = new SnapshotReader(() => this.#openBefore())
  #isWriting = false
  /** The last sync failed. */
  #isDoubtful = false
  #wal: WalFile | undefined
  #checkpointAtFrames = framesPerCheckpoint
  /** Work of other threads on the files: they may not be closed meanwhile. */
  #working: Promise<unknown> | undefined

  constructor(path: string, options: DatabaseOptions) {
    this.path = path
    this.#options = options
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
    const result = this.#commit(work)
    this.assertInPlace()
    return result
  }

  /** Commits, or rolls back and rethrows. `sync` has to follow, before the next one. */
  commitUnsynced<T>(work: () => T): T {
    if (this.#isDoubtful)
      throw storageUnavailableProblem(`${basename(this.path)} cannot be used: its last sync failed`)
    try {
      this.#before.hold()
      this.#main.db.exec('PRAGMA synchronous = NORMAL')
      try {
        return this.#commit(work)
      } finally {
        this.#main.db.exec(`PRAGMA synchronous = ${this.#options.synchronous}`)
      }
    } catch (error) {
      this.#before.release()
      throw toStorageProblem(error, this.path)
    }
  }

  /** Resolves when the commit is durable in the files that the next start finds: then it is seen. */
  async sync(): Promise<void> {
    try {
      this.assertInPlace()
      this.#openWal()
    } catch (error) {
      this.#before.release()
      throw toStorageProblem(error, this.path)
    }
    try {
      await this.#whileWorking(this.#openWal().sync())
    } catch (error) {
      this.#doubt()
      throw toStorageProblem(error, this.path)
    }
    this.#before.release()
    this.assertInPlace()
  }

  /** Whether reads and writes in this moment belong to an open transaction. */
  get isWriting(): boolean {
    return this.#isWriting
  }

  /** Whether the last sync failed, and it is not known whether its commit is durable. */
  get isDoubtful(): boolean {
    return this.#isDoubtful
  }

  #commit<T>(work: () => T): T {
    const { db } = this.#main
    try {
      db.exec('BEGIN IMMEDIATE')
      this.#isWriting = true
      const result = work()
      db.exec('COMMIT')
      return result
    } catch (error) {
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
    const { migrations, synchronous } = this.#options
    const options = { readOnly: true, cacheBytes: cacheBytesBefore, synchronous, migrations }
    const connection = openConnection(this.path, this.path, options)
    connection.db.exec(`PRAGMA busy_timeout = ${busyMs}`)
    return connection
  }

  /** Reads go on. Another connection is open, so SQLite makes no checkpoint when this one is closed. */
  #doubt(): void {
    this.#isDoubtful = true
    this.#closeWal()
    this.#main.db.close()
  }

  #openWal(): WalFile {
    const path = `${this.path}-wal`
    this.#wal ??= new WalFile(path, (stats) => {
      if (!this.#place?.isOpenWal(stats)) throw movedProblem(path)
    })
    return this.#wal
  }

  #closeWal(): void {
    this.#wal?.close()
    this.#wal = undefined
  }

  async #whileWorking<T>(work: Promise<T>): Promise<T> {
    this.#working = work
    try {
      return await work
    } finally {
      this.#working = undefined
    }
  }

  /** Resolves when no other thread works on the files. */
  async settled(): Promise<void> {
    while (this.#working !== undefined) await this.#working.catch(() => {})
  }

  /** A part of the open transaction: rolls back its own writes when it throws, and rethrows. */
  savepoint<T>(work: () => T): T {
    try {
      this.#main.db.exec('SAVEPOINT nested')
      const result = work()
      this.#main.db.exec('RELEASE nested')
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
      if (this.#main.db.isTransaction) this.#main.db.exec('ROLLBACK TO nested; RELEASE nested')
    } catch {
      this.#rollBack()
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
      this.#rewriteWal()
      if (this.#isDoubtful) this.#openAgain()
      else this.#main.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch (error) {
      throw toStorageProblem(error, this.path)
    }
    // What the probe leaves in the write-ahead log would be read as a part of a file that replaced this one.
    this.assertInPlace()
    this.probe()
  }

  #rewriteWal(): void {
    // The one at the path may be in use by another server.
    if (this.isOpen) rewrite(`${this.path}-wal`, (stats) => this.#place?.isOpenWal(stats) === true)
  }

  /**
   * The last connection that is closed is one that only reads, and makes no checkpoint; so the next one
   * examines the write-ahead log, and takes what has the right checksums.
   */
  #openAgain(): void {
    this.assertInPlace()
    this.#closeAnyway()
    this.#use(this.#openExisting())
  }

  #use(connection: Connection): void {
    this.#main = connection
    this.#isDoubtful = false
    this.#checkpointAtFrames = framesPerCheckpoint
    this.#place = new FilePlace(this.path)
  }

  /**
   * Opens what is at the path of the file now; never creates it. After a failure the file that was open stays
   * open for reads while it is in place; otherwise it is let go of first. `verify` throws for another
   * database than the one that was open, which is closed then: the next attempt must not take it for that
   * one.
   */
  reopen(verify: () => void = () => {}): void {
    const old = this.isOpen && this.isInPlace ? this.#main.db : undefined
    try {
      if (old !== undefined && this.#isDoubtful) this.#rewriteWal()
      if (old === undefined || this.#isDoubtful) this.#closeAnyway()
      this.#closeWal()
      this.#before.close()
      this.#use(this.#openExisting())
      if (old?.isOpen) old.close()
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

  #openExisting(): Connection {
    const url = pathToFileURL(this.path)
    url.searchParams.set('mode', 'rw')
    const connection = openConnection(url, this.path, this.#options)
    try {
      connection.db.exec(`PRAGMA wal_checkpoint(TRUNCATE); PRAGMA busy_timeout = ${busyMs}`)
      return connection
    } catch (error) {
      connection.db.close()
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
    this.#main.db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  /** Whether the write-ahead log has so many pages that they should be moved into the file. */
  get isCheckpointDue(): boolean {
    try {
      const [, frames] = this.get<[number, number]>('PRAGMA wal_checkpoint(NOOP)') ?? []
      return (frames ?? 0) >= this.#checkpointAtFrames
    } catch {
      return false
    }
  }

  /** `checkpoint` in another thread, as far as no reader needs it; nothing may be written meanwhile. */
  async checkpointInThread(): Promise<void> {
    // What a reader keeps there stays until the next time.
    this.#checkpointAtFrames += framesPerCheckpoint
    try {
      this.assertInPlace()
      const frames = await this.#whileWorking(checkpointInThread(this.path))
      this.#checkpointAtFrames = frames + framesPerCheckpoint
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
    this.#closeWal()
    this.#before.close()
    this.#main.statements.clear()
    if (this.#main.db.isOpen) this.#main.db.close()
  }
}

/** Bytes of a BLOB as a Buffer, without copying. */
export function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
