import {
  closeSync,
  existsSync,
  fdatasync,
  fstatSync,
  fsyncSync,
  openSync,
  readSync,
  type Stats,
  writeSync,
} from 'node:fs'
import { open } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'

const chunkBytes = 1024 * 1024

/**
 * Syncs the write-ahead log of an open database in a thread of Node's pool. It has a descriptor of its own, which
 * may be closed: SQLite has no locks on this file. Linux reports a failed write of any descriptor to each of them.
 */
export class WalFile {
  readonly #path: string
  readonly #fd: number
  #isEntrySynced = false

  /** Throws when the file is missing. @param assertMeant throws when it is not the one that is meant. */
  constructor(path: string, assertMeant: (stats: Stats) => void) {
    this.#path = path
    this.#fd = openSync(path, 'r+')
    try {
      assertMeant(fstatSync(this.#fd))
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Resolves when everything that was written before is on the disk, the name of the file too. */
  async sync(): Promise<void> {
    await promisify(fdatasync)(this.#fd)
    if (this.#isEntrySynced) return
    await using directory = await open(dirname(this.#path))
    await directory.sync()
    this.#isEntrySynced = true
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Writes the bytes of a file over themselves and syncs them, if it is the one that is meant. */
export function rewrite(path: string, isMeant: (stats: Stats) => boolean = () => true): void {
  if (!existsSync(path)) return
  const fd = openSync(path, 'r+')
  try {
    if (!isMeant(fstatSync(fd))) return
    const chunk = Buffer.alloc(chunkBytes)
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
