import { type Stats, statSync } from 'node:fs'
import { movedProblem } from './storage-failure.ts'

/** The database, its write-ahead log, and the index of that. */
const suffixes = ['', '-wal', '-shm']

/**
 * Which files of a database are open, by device and inode. A file that was removed or replaced takes writes
 * and syncs as before, and the next start does not have them: what is committed counts only while the open
 * files are those at the paths.
 */
export class FilePlace {
  readonly #path: string
  readonly #files = new Map<string, string>()

  /** To be made when the database has just been opened. */
  constructor(path: string) {
    this.#path = path
    this.findMoved()
  }

  /**
   * The path of an open file that is missing any more; undefined when all are. Throws when it cannot be
   * known.
   */
  findMoved(): string | undefined {
    for (const suffix of suffixes) {
      const path = this.#path + suffix
      const file = identify(path)
      const open = this.#files.get(suffix)
      // SQLite makes the other two when they are first needed.
      if (open === undefined && file !== undefined) this.#files.set(suffix, file)
      else if (open !== file) return path
    }
    return undefined
  }

  /** Device and inode of the database. */
  get file(): string {
    return this.#files.get('') ?? ''
  }

  /** Whether a file is the write-ahead log that is open. */
  isOpenWal(stats: Stats): boolean {
    return this.#files.get('-wal') === identityOf(stats)
  }

  assertOpenWal(stats: Stats): void {
    if (!this.isOpenWal(stats)) throw movedProblem(`${this.#path}-wal`)
  }
}

/** A second descriptor would drop SQLite's locks of the file when it is closed. */
function identify(path: string): string | undefined {
  const stats = statSync(path, { throwIfNoEntry: false })
  return stats && identityOf(stats)
}

function identityOf({ dev, ino }: Stats): string {
  return `${dev}:${ino}`
}
