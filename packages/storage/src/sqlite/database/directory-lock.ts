import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { closeToOthers } from './database.ts'

/** Exclusive lock of a directory, held by one process at a time. */
export class DirectoryLock implements Disposable {
  readonly #db: DatabaseSync

  /** Throws a plain Error when another process holds the lock file `name` of the directory. */
  constructor(directory: string, name: string) {
    const path = join(directory, name)
    this.#db = new DatabaseSync(path, { timeout: 0 })
    closeToOthers(path)
    try {
      // The system releases it when the process dies, however it dies.
      this.#db.exec('BEGIN EXCLUSIVE')
    } catch (cause) {
      this.#db.close()
      throw new Error(`the data directory ${directory} is in use by another process`, { cause })
    }
  }

  [Symbol.dispose](): void {
    if (this.#db.isOpen) this.#db.close()
  }
}
