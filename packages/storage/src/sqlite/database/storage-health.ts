/**
 * Whether the databases can be written, and the way back after a failure.
 *
 * Problem: a disk is full, read-only or away for a while, a file is moved, a page is damaged. Each write
 * would find out on its own, and after a failed sync a write that succeeds proves nothing: the kernel may
 * have dropped what it could not write.
 *
 * Idea: the first failure closes the database for writes, and reads continue. A probe with backoff repairs
 * it, writes and syncs; its success, or that of a write, opens it again.
 *
 * Invariants:
 * - A failure of the storage is kept as the problem (`failed`), and writes are refused with it at once
 *   (`assertUsable`). On a full disk and behind a lock they are tried: a smaller one may fit.
 * - Damage of a page refuses nothing else while the rest can be written (`#isUsable`). It is logged once.
 * - A disk that was full has to take a file before it is tried (`writeScratchFile`).
 * - `recoverDatabase` repairs the open file before it opens another: what was acknowledged may be in the open
 *   file alone. It opens what is at the path only if something is there.
 * - The directory may be that of another server by now. So a database without the lock of the directory is
 *   opened again only while the others are in place (`assertOthersInPlace`).
 * - A closed DatabaseHealth has no problem and starts no probe.
 *
 * If you change this: writes that are acknowledged and lost, or a server that stays read-only on a good disk.
 * What counts as a failure: `storage-failure.ts`. What operators see: `docs/operations.md`.
 */

import { existsSync, statfsSync } from 'node:fs'
import { access, constants, open, rm, statfs } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import {
  type LogFunction,
  Problem,
  rethrowStorageFailure,
  storageFullProblem,
  storageUnavailableProblem,
} from '@slipway/protocol'
import { createCounter, createGauge, type Metric } from '@slipway/shared/metrics'
import type { Database } from './database.ts'
import {
  isDamaged,
  isDiskFull,
  isLocked,
  isMoved,
  isNotDatabase,
  isStorageFailure,
} from './storage-failure.ts'

const firstProbeMs = 100
const maxProbeMs = 5_000
/** A disk with less space counts as full. */
const minFreeBytes = 64 * 1024

/** Whether the databases of a server can be written, each with its way back after a failure. */
export class StorageHealth {
  readonly #directory: string
  readonly #log: LogFunction
  readonly #findProblem: () => Problem | undefined
  readonly #databases: DatabaseHealth[] = []
  readonly refused = createCounter(
    'slipway_storage_refused_writes_total',
    'Changes that were refused because the storage could not be written.',
  )
  readonly metrics: readonly Metric[] = [
    createGauge('slipway_storage_free_bytes', 'Free space of the disk of the data directory, in bytes.', () =>
      measureFree(this.#directory),
    ),
    createGauge('slipway_storage_writable', '1 while the storage can be written, 0 while it cannot.', () =>
      Number(this.#problem === undefined),
    ),
    this.refused,
  ]

  /** @param findProblem of a database that is not in the directory. */
  constructor(directory: string, log: LogFunction, findProblem: () => Problem | undefined = () => undefined) {
    this.#directory = directory
    this.#log = log
    this.#findProblem = findProblem
  }

  /**
   * `recover` is tried with backoff after a failure, until it resolves; it repairs and probes unless passed.
   *
   * @param table without which the database is of no use: damage that costs all of it refuses writes.
   */
  add(
    db: Database,
    recover: () => Promise<void> = () => recoverDatabase(db),
    table?: string,
  ): DatabaseHealth {
    const recoverTable = async () => {
      await recover()
      if (table !== undefined) db.assertReadable(table)
    }
    const health = new DatabaseHealth(db, recoverTable, this.#log, this.refused, table)
    this.#databases.push(health)
    return health
  }

  /** Why nothing can be written at the moment; undefined when writes are possible. */
  async check(): Promise<Problem | undefined> {
    for (const database of this.#databases) database.check()
    return this.#problem ?? (await checkDirectory(this.#directory))
  }

  /**
   * Throws a Problem unless all other databases are open in place: the directory, and the lock that one of
   * them holds, may be those of another server by now.
   */
  assertOthersInPlace(db: Database): void {
    for (const database of this.#databases) database.assertInPlace(db)
  }

  /** Ends the attempts. */
  async close(): Promise<void> {
    await Promise.all(this.#databases.map((health) => health.close()))
  }

  get #problem(): Problem | undefined {
    return this.#findProblem() ?? this.#databases.find(({ problem }) => problem !== undefined)?.problem
  }
}

/** Bytes that this user may still write to the disk of a directory; NaN while the disk does not tell. */
function measureFree(directory: string): number {
  try {
    const { bavail, bsize } = statfsSync(directory)
    return bavail * bsize
  } catch {
    return Number.NaN
  }
}

/** Whether one database can be written. */
export class DatabaseHealth {
  readonly #db: Database
  readonly #recover: () => Promise<void>
  readonly #log: LogFunction
  readonly #refused: StorageHealth['refused']
  readonly #table: string | undefined
  #problem: Problem | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #isDamageKnown = false
  #probing: Promise<void> | undefined

  constructor(
    db: Database,
    recover: () => Promise<void>,
    log: LogFunction,
    refused: StorageHealth['refused'],
    table: string | undefined,
  ) {
    this.#db = db
    this.#recover = recover
    this.#log = log
    this.#refused = refused
    this.#table = table
  }

  /** Why the last write failed; undefined after a success. */
  get problem(): Problem | undefined {
    return this.#isClosed ? undefined : this.#problem
  }

  /** Notices files that were removed or replaced before the first write fails. */
  check(): void {
    if (this.#isClosed || this.#problem !== undefined) return
    try {
      this.#db.assertInPlace()
    } catch (error) {
      this.failed(error, 0)
    }
  }

  /** Throws a Problem unless the database, if it is another one, is open in place. */
  assertInPlace(except: Database): void {
    if (this.#isClosed || this.#db === except) return
    if (!this.#db.isOpen) throw this.#problem ?? storageUnavailableProblem(`${this.#db.path} is closed`)
    this.#db.assertInPlace()
  }

  /** Throws the problem while a write is not worth an attempt: on a full disk it is. */
  assertUsable(): void {
    const problem = this.#problem
    if (problem !== undefined && !isDiskFull(problem) && !isLocked(problem)) throw problem
  }

  /**
   * To be called with the error of each failed write; other errors than failures of the storage change
   * nothing.
   */
  failed(error: unknown, changes = 1): void {
    if (!isStorageFailure(error) || this.#isClosed) return
    this.#refused.inc(changes)
    if (isDamaged(error)) {
      this.#reportDamage(error)
      // It concerns what is on a page, and refuses nothing else.
      if (!isNotDatabase(error) && this.#isUsable()) return
    }
    const isNew = this.#problem === undefined
    this.#problem = error
    if (!isNew) return
    const { cause, message } = error
    this.#log('error', 'the storage cannot be written', {
      file: this.#db.path,
      reason: message,
      error: String(cause),
    })
    this.#scheduleProbe(firstProbeMs)
  }

  #isUsable(): boolean {
    try {
      this.#db.probe()
      if (this.#table !== undefined) this.#db.assertReadable(this.#table)
      return true
    } catch {
      return false
    }
  }

  #reportDamage({ message, cause }: Problem): void {
    if (this.#isDamageKnown) return
    this.#isDamageKnown = true
    const next = 'stop the server, then "slipway doctor --repair" repairs what can be'
    this.#log('error', `a database is damaged: ${next}`, {
      file: this.#db.path,
      reason: message,
      error: String(cause),
    })
  }

  warn(message: string, cause: unknown): void {
    this.#log('warn', message, { file: this.#db.path, error: String(cause) })
  }

  succeeded(): void {
    if (this.#problem === undefined) return
    this.#problem = undefined
    clearTimeout(this.#timer)
    this.#log('info', 'the storage is written again', { file: this.#db.path })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#probing
  }

  #scheduleProbe(delayMs: number): void {
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#probing = this.#probe(delayMs)
    }, delayMs).unref()
  }

  async #probe(delayMs: number): Promise<void> {
    try {
      if (isDiskFull(this.#problem)) await writeScratchFile(dirname(this.#db.path))
      if (this.#isClosed || this.#problem === undefined) return
      await this.#recover()
      this.succeeded()
    } catch (error) {
      if (this.#isClosed || this.#problem === undefined) return
      if (isStorageFailure(error)) this.#problem = error
      this.#scheduleProbe(Math.min(maxProbeMs, delayMs * 2))
    }
  }
}

/**
 * Makes a database usable again on the same file, or on the file that is at its path now. The file stays open
 * for reads while its disk takes no writes or nothing is at its path, and is let go of when it cannot be
 * opened any more. A write-ahead log that was removed is moved into the file first.
 *
 * @param release ends what else has the file open; it is called when no other thread works on the files.
 */
export async function recoverDatabase(
  db: Database,
  reopen: () => void = () => db.reopen(),
  release: () => Promise<void> = async () => {},
): Promise<void> {
  await settle(db, release)
  try {
    db.repair()
  } catch (error) {
    if (isDiskFull(error) || isLocked(error)) throw error
    // What was acknowledged is in the open file alone.
    if (isMoved(error) && !existsSync(db.path)) throw error
    if (db.isOpen && db.isInPlace) await writeScratchFile(dirname(db.path))
    await settle(db, release)
    reopen()
    db.probe()
  }
}

/** While the disk is full, writes are tried meanwhile. */
async function settle(db: Database, release: () => Promise<void>): Promise<void> {
  do {
    await db.settled()
    await release()
  } while (db.isWorking)
}

/** Throws a Problem unless the disk has room. */
async function writeScratchFile(directory: string): Promise<void> {
  const path = join(directory, '.space-probe')
  try {
    await using file = await open(path, 'w', 0o600)
    await file.writeFile(Buffer.alloc(minFreeBytes, 1))
    await file.sync()
  } catch (error) {
    rethrowStorageFailure(error)
  } finally {
    await rm(path, { force: true }).catch(() => {})
  }
}

/** Notices a full or read-only disk before the first write fails. */
async function checkDirectory(directory: string): Promise<Problem | undefined> {
  try {
    await access(directory, constants.W_OK).catch(rethrowStorageFailure)
    const { bavail, bfree, bsize } = await statfs(directory)
    // Blocks that are reserved for root.
    const free = process.getuid?.() === 0 ? bfree : bavail
    return free * bsize < minFreeBytes ? storageFullProblem() : undefined
  } catch (error) {
    return error instanceof Problem ? error : undefined
  }
}
