import { chmodSync } from 'node:fs'
import { DatabaseSync, type SQLInputValue, type StatementSync } from 'node:sqlite'

export type Value = SQLInputValue

export interface DatabaseOptions {
  readonly readOnly?: boolean
  readonly synchronous: 'FULL' | 'NORMAL'
  /** Upper bound of the page cache. */
  readonly cacheBytes: number
  /** The schema; the file's `user_version` is the number of migrations applied. */
  readonly migrations: readonly string[]
}

/** One SQLite file in WAL mode. Prepared statements are cached; rows are arrays in column order. */
export class Database {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  constructor(path: string, options: DatabaseOptions) {
    this.#db = new DatabaseSync(path, { readOnly: options.readOnly ?? false, timeout: 5000 })
    this.#db.exec(`PRAGMA cache_size = -${Math.ceil(options.cacheBytes / 1024)}`)
    if (options.readOnly) return
    closeToOthers(path)
    this.#db.exec('PRAGMA journal_mode = WAL')
    this.#db.exec(`PRAGMA synchronous = ${options.synchronous}`)
    this.#db.exec(
      'PRAGMA wal_autocheckpoint = 2000; PRAGMA journal_size_limit = 33554432; PRAGMA temp_store = MEMORY',
    )
    this.#migrate(path, options.migrations)
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
    this.prepare(sql).run(...values)
  }

  get<R extends readonly unknown[]>(sql: string, ...values: Value[]): R | undefined {
    return this.prepare(sql).get(...values) as unknown as R | undefined
  }

  all<R extends readonly unknown[]>(sql: string, ...values: Value[]): R[] {
    return this.prepare(sql).all(...values) as unknown as R[]
  }

  /** Rows one by one. Each call has its own statement, so that iterations may be nested or left early. */
  *iterate<R extends readonly unknown[]>(sql: string, ...values: Value[]): Generator<R> {
    const statement = this.#db.prepare(sql)
    statement.setReturnArrays(true)
    yield* statement.iterate(...values) as unknown as Iterable<R>
  }

  /** Commits, or rolls back and rethrows. */
  transaction<T>(work: () => T): T {
    this.#db.exec('BEGIN IMMEDIATE')
    try {
      const result = work()
      this.#db.exec('COMMIT')
      return result
    } catch (error) {
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK')
      throw error
    }
  }

  /** A part of the open transaction: rolls back its own writes when it throws, and rethrows. */
  savepoint<T>(work: () => T): T {
    this.#db.exec('SAVEPOINT nested')
    try {
      const result = work()
      this.#db.exec('RELEASE nested')
      return result
    } catch (error) {
      // A full disk rolls back the whole transaction, and the savepoint with it.
      if (this.#db.isTransaction) this.#db.exec('ROLLBACK TO nested; RELEASE nested')
      throw error
    }
  }

  pragma(name: string): unknown {
    return this.get<[unknown]>(`PRAGMA ${name}`)?.[0]
  }

  /** The steps of SQLite's query plan, for tests. */
  plan(sql: string): string[] {
    return this.all<[number, number, number, string]>(`EXPLAIN QUERY PLAN ${sql}`).map(
      ([, , , detail]) => detail,
    )
  }

  /** Moves what was committed from the write-ahead log into the file, synced to disk. */
  checkpoint(): void {
    this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  close(): void {
    this.#statements.clear()
    if (this.#db.isOpen) this.#db.close()
  }

  #migrate(path: string, migrations: readonly string[]): void {
    const from = Number(this.pragma('user_version'))
    if (from > migrations.length) throw new Error(`${path} was written by a newer version`)
    for (const [index, sql] of migrations.entries()) {
      if (index < from) continue
      this.transaction(() => this.#db.exec(`${sql}; PRAGMA user_version = ${index + 1}`))
    }
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

/** Primary result code of an SQLite error, undefined for any other error. */
export function resultCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number')
    return undefined
  return error.errcode & 0xff
}

export function isDiskFull(error: unknown): boolean {
  return resultCode(error) === 13
}

/** IOERR, CORRUPT, CANTOPEN, NOTADB: what the file holds is not known any more. */
const fatalCodes = new Set<number | undefined>([10, 11, 14, 26])

export function isFatal(error: unknown): boolean {
  return fatalCodes.has(resultCode(error))
}
