import { accessSync, closeSync, constants, fstatSync, openSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { errorCode } from '@slipway/shared/fs'
import { assertUntracked, findLockHolder, type Libc, loadLibc } from '@slipway/shared/process'
import { closeToOthers } from './connection.ts'
import type { LogIdentity } from './log-identity.ts'
import { resultCode } from './storage-failure.ts'

const lockedCode = 5
const notADatabaseCode = 26

/**
 * Directories that this process has locked, by device and inode; the stores of a directory share its lock.
 */
const heldDirectories = new Map<string, { readonly fd: number; readonly names: Set<string> }>()

/** The file of the lock of a data directory. */
export const lockName = 'lock.db'

/** Another process holds the lock of a directory. */
export class DirectoryInUseError extends Error {
  override readonly name = 'DirectoryInUseError'
}

/**
 * Exclusive lock of a directory, held by one process at a time: the lock of the directory itself, which no
 * change of
 * its files passes by, and one of the file `name`, which systems without the first and older versions know.
 */
export class DirectoryLock implements Disposable {
  readonly #directory: string
  readonly #name: string
  readonly #libc: Libc | undefined
  #db: DatabaseSync | undefined
  #key: string | undefined

  private constructor(directory: string, name: string, libc: Libc | undefined) {
    this.#directory = directory
    this.#name = name
    this.#libc = libc
  }

  /**
   * Rejects with a plain Error that says why when another process holds the lock, it cannot be taken, or git
   * tracks the directory.
   */
  static async acquire(directory: string, name = lockName): Promise<DirectoryLock> {
    await assertUntracked(directory)
    const lock = new DirectoryLock(directory, name, await loadLibc())
    lock.acquire()
    return lock
  }

  /**
   * Takes the lock again after `release`, or throws an Error. The system releases it when the process dies.
   */
  acquire(): void {
    try {
      this.#lockDirectory()
      this.#lockFile()
    } catch (error) {
      this.release()
      throw error
    }
  }

  /** The path of the lock file. */
  get path(): string {
    return join(this.#directory, this.#name)
  }

  /** The log that the directory had when it was last opened; undefined when that is not known. */
  readIdentity(): LogIdentity | undefined {
    try {
      const row = this.#db?.prepare('SELECT store, generation FROM log').get()
      return row && { store: String(row.store), generation: Number(row.generation) }
    } catch {
      // A file of an earlier version, or a damaged one.
      return undefined
    }
  }

  /** While the disk is full, the next start writes it. */
  writeIdentity({ store, generation }: LogIdentity): void {
    const db = this.#db
    if (db === undefined) return
    try {
      db.exec('CREATE TABLE IF NOT EXISTS log (store TEXT NOT NULL, generation INTEGER NOT NULL) STRICT')
      db.exec('DELETE FROM log')
      db.prepare('INSERT INTO log VALUES (?, ?)').run(store, generation)
      db.exec('COMMIT')
    } catch {
      if (db.isTransaction) db.exec('ROLLBACK')
    }
    // The lock of the directory is held in between.
    db.exec('BEGIN EXCLUSIVE')
  }

  release(): void {
    if (this.#db?.isOpen) this.#db.close()
    this.#db = undefined
    const key = this.#key
    this.#key = undefined
    const held = key === undefined ? undefined : heldDirectories.get(key)
    if (key === undefined || held === undefined) return
    held.names.delete(this.#name)
    if (held.names.size > 0) return
    heldDirectories.delete(key)
    closeSync(held.fd)
  }

  [Symbol.dispose](): void {
    this.release()
  }

  #lockDirectory(): void {
    const directory = this.#directory
    const fd = this.#attempt(directory, () => {
      accessSync(directory, constants.R_OK | constants.W_OK | constants.X_OK)
      return openSync(directory, 'r')
    })
    const { dev, ino } = fstatSync(fd)
    const key = `${dev}:${ino}`
    const held = heldDirectories.get(key)
    if (held !== undefined) closeSync(fd)
    if (held?.names.has(this.#name)) throw this.#inUse(process.pid)
    if (held === undefined && this.#libc?.lockExclusively(fd) === false) {
      closeSync(fd)
      throw this.#inUse(findLockHolder('FLOCK', ino))
    }
    if (held === undefined) heldDirectories.set(key, { fd, names: new Set([this.#name]) })
    else held.names.add(this.#name)
    this.#key = key
  }

  #lockFile(): void {
    const { path } = this
    // SQLite takes no lock of a file that it can only read.
    const fd = this.#attempt(path, () => openSync(path, 'a+', 0o600))
    const { ino } = fstatSync(fd)
    closeSync(fd)
    closeToOthers(path)
    try {
      this.#db = new DatabaseSync(path, { timeout: 0 })
      this.#db.exec('BEGIN EXCLUSIVE')
    } catch (cause) {
      const code = resultCode(cause)
      if (code === lockedCode) throw this.#inUse(findLockHolder('POSIX', ino))
      const reason = cause instanceof Error ? cause.message : String(cause)
      const advice = code === notADatabaseCode ? '. Delete it while no server uses the directory' : ''
      throw new Error(`the lock file ${path} cannot be used: ${reason}${advice}`, { cause })
    }
  }

  /** Says what is wrong with a path, and what to do. */
  #attempt<T>(path: string, work: () => T): T {
    try {
      return work()
    } catch (cause) {
      const code = errorCode(cause) ?? ''
      const reason = reasons[code] ?? (cause instanceof Error ? cause.message : code)
      throw new Error(`the data directory ${this.#directory} cannot be locked: ${path}: ${reason}`, { cause })
    }
  }

  #inUse(pid: number | undefined): Error {
    const holder = pid === undefined ? '' : ` (pid ${pid})`
    const advice = 'Stop it, or choose another data directory.'
    return new DirectoryInUseError(
      `the data directory ${this.#directory} is in use by another process${holder}. ${advice}`,
    )
  }
}

const reasons: Readonly<Record<string, string>> = {
  ENOSPC: 'the disk is full; make room',
  EDQUOT: 'the disk quota is used up; make room',
  EROFS: 'the file system is read-only; mount it for writing or choose another data directory',
  EACCES: 'permission denied; change its owner or mode, or choose another data directory',
  EPERM: 'permission denied; change its owner or mode, or choose another data directory',
  EISDIR: 'it is a directory; remove it',
  EMFILE: 'too many files are open; raise the limit',
  ENFILE: 'too many files are open; raise the limit',
}
