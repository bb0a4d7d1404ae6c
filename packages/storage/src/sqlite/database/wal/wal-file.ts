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
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { errorCode, syncDirectory } from '@slipway/shared/fs'
import { findWalEnd, hasFrames, type WalEnd } from './wal-frames.ts'

const syncData = promisify(fdatasync)
const chunkBytes = 1024 * 1024
/** Of file systems that cannot sync directories. */
const unsyncedDirectoryCodes = new Set<string | undefined>(['EINVAL', 'ENOTSUP', 'EPERM'])

/**
 * Syncs the write-ahead log of an open database in a thread of Node's pool. It has its own descriptor,
 * which may be closed: SQLite has no locks on this file. Linux reports a failed write of any descriptor to
 * each of them.
 */
export class WalFile {
  readonly #path: string
  readonly #fd: number
  #isEntrySynced = false
  #end: WalEnd
  #lastCommitFrames = 1
  /** A failed commit may have left whole frames of a log with these salts. */
  #unsureSalts: string | undefined

  /** Throws when the file is missing. @param assertMeant throws when it is not the one that is meant. */
  constructor(path: string, assertMeant: (stats: Stats) => void) {
    this.#path = path
    this.#fd = openSync(path, 'r+')
    try {
      assertMeant(fstatSync(this.#fd))
      this.#end = findWalEnd(this.#fd)
    } catch (error) {
      this.close()
      throw error
    }
  }

  /** Whether the log had begun again, after a checkpoint, when `advance` was last called. */
  hasRestarted = false

  /** Frames up to the last commit, when `advance` was last called. */
  get frames(): number {
    return this.#end.frames
  }

  /** After a commit. Returns where the log ended before it. */
  advance(): WalEnd {
    const before = this.#end
    this.#end = findWalEnd(this.#fd, before, this.#lastCommitFrames)
    const { salts, frames } = this.#end
    const isSame = salts === before.salts
    this.hasRestarted = !isSame
    this.#lastCommitFrames = isSame ? frames - before.frames : frames
    return isSame && salts !== this.#unsureSalts ? before : { salts, frames: 0 }
  }

  /** After a failed commit, whose frames may look like those of a commit: `advance` does not count on any. */
  distrust(): void {
    try {
      this.#unsureSalts = findWalEnd(this.#fd, this.#end).salts
    } catch {
      this.#unsureSalts = this.#end.salts
    }
  }

  /** Resolves when everything that was written before is on the disk, the name of the file too. */
  async sync(): Promise<void> {
    await syncData(this.#fd)
    if (this.#isEntrySynced) return
    await syncDirectory(dirname(this.#path)).catch((error: unknown) => {
      if (!unsyncedDirectoryCodes.has(errorCode(error))) throw error
    })
    this.#isEntrySynced = true
  }

  close(): void {
    closeSync(this.#fd)
  }
}

/** Whether the write-ahead log at a path has all frames up to an end, with the right checksums. */
export function isWalWhole(path: string, end: WalEnd): boolean {
  if (!existsSync(path)) return end.frames === 0
  const fd = openSync(path, 'r')
  try {
    return hasFrames(fd, end)
  } finally {
    closeSync(fd)
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
