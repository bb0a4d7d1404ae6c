import { closeSync, openSync, readFileSync, readSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { pageBytes, WalPages } from '../database/wal/wal-frames.ts'

const chunkBytes = 256 * pageBytes
const sumBytes = 4

/**
 * A file beside index.db with a checksum of each of its pages. A changed bit in a page of the index would be
 * a wrong search and no error, and to build the index again takes long.
 *
 * Pages of index.db change at checkpoints alone, and before a checkpoint the sums of what is in the
 * write-ahead log are written. So a page of the file is at any time, also after a kill, what its sum says, or
 * a newer one of it is in the write-ahead log, whose frames SQLite checks itself. Where that log ends early
 * because it is damaged, the file is an older index, or has a page that is not what its sum says.
 */
export class IndexSeal {
  readonly #path: string
  readonly #wal: WalPages
  #sums: readonly number[]

  private constructor(indexPath: string, wal = new WalPages(indexPath), sums: readonly number[] = []) {
    this.#path = sealPath(indexPath)
    this.#wal = wal
    this.#sums = sums
  }

  /** Of an index that is made now. */
  static create(indexPath: string): IndexSeal {
    return new IndexSeal(indexPath)
  }

  /** Before the index is opened. Undefined unless it is what it was when it was last written. */
  static open(indexPath: string): IndexSeal | undefined {
    try {
      const sums = readSums(sealPath(indexPath))
      const wal = new WalPages(indexPath)
      const newer = wal.read()
      const file = sumsOf(indexPath)
      const pageCount = newer.pageCount ?? sums.length
      if (newer.pageCount === undefined && file.length !== pageCount) return undefined
      for (let page = 1; page <= pageCount; page++)
        if (!newer.sums.has(page) && file[page - 1] !== sums[page - 1]) return undefined
      const seal = new IndexSeal(indexPath, wal, sums)
      seal.#add(newer)
      return seal
    } catch {
      return undefined
    }
  }

  /** To be called before each checkpoint. */
  write(): void {
    this.#add(this.#wal.read())
    const bytes = Buffer.alloc((this.#sums.length + 1) * sumBytes)
    for (const [index, sum] of this.#sums.entries()) bytes.writeUInt32LE(sum, index * sumBytes)
    bytes.writeUInt32LE(crc32(bytes.subarray(0, -sumBytes)), bytes.length - sumBytes)
    const draft = `${this.#path}.draft`
    writeFileSync(draft, bytes, { mode: 0o600 })
    renameSync(draft, this.#path)
  }

  #add({ sums, pageCount }: ReturnType<WalPages['read']>): void {
    if (pageCount === undefined) return
    this.#sums = Array.from({ length: pageCount }, (_, at) => sums.get(at + 1) ?? this.#sums[at] ?? 0)
  }
}

export function removeSeal(indexPath: string): void {
  rmSync(sealPath(indexPath), { force: true })
}

function sealPath(indexPath: string): string {
  return indexPath.replace(/\.db$/, '.sum')
}

/** Throws an Error when they are damaged. */
function readSums(path: string): readonly number[] {
  const bytes = readFileSync(path)
  const count = bytes.length / sumBytes - 1
  if (
    !Number.isInteger(count) ||
    crc32(bytes.subarray(0, -sumBytes)) !== bytes.readUInt32LE(count * sumBytes)
  )
    throw new Error(`${path} is damaged`)
  return Array.from({ length: count }, (_, index) => bytes.readUInt32LE(index * sumBytes))
}

/** Of each page. */
function sumsOf(path: string): readonly number[] {
  const fd = openSync(path, 'r')
  try {
    const chunk = Buffer.alloc(chunkBytes)
    const sums: number[] = []
    for (;;) {
      const length = readSync(fd, chunk, 0, chunk.length, sums.length * pageBytes)
      for (let at = 0; at < length; at += pageBytes)
        sums.push(crc32(chunk.subarray(at, Math.min(at + pageBytes, length))))
      if (length < chunk.length) return sums
    }
  } finally {
    closeSync(fd)
  }
}
