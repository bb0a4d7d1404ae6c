import { closeSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { errorCode } from '@slipway/shared/fs'

/** Of databases that SQLite makes here. */
export const pageBytes = 4096
const headerBytes = 32
const frameHeaderBytes = 24
/** Its checksums are of words with the lowest byte first. */
const magic = 0x377f0682

/** Pages that were committed to a write-ahead log. */
export interface CommittedPages {
  /** By number, from 1: checksums of their newest content. */
  readonly sums: ReadonlyMap<number, number>
  /** Of the database after the last commit; undefined when there was none. */
  readonly pageCount: number | undefined
}

/** Where the next frame begins, with the running checksum before it. */
interface Place {
  readonly at: number
  readonly sum: Sum
}
type Sum = readonly [number, number]

/**
 * Reads the write-ahead log of a database as SQLite does when it opens one: frames of this generation (salt)
 * with right checksums, up to the last commit. The format is "The Write-Ahead Log" of SQLite's file format.
 */
export class WalPages {
  readonly #path: string
  #salt = ''
  #place: Place = { at: headerBytes, sum: [0, 0] }

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`
  }

  /** What was committed since the last call. */
  read(): CommittedPages {
    const fd = openIfThere(this.#path)
    if (fd === undefined) return { sums: new Map(), pageCount: undefined }
    try {
      return this.#readHeader(fd) ? this.#readFrames(fd) : { sums: new Map(), pageCount: undefined }
    } finally {
      closeSync(fd)
    }
  }

  /** Begins again in a new generation. Returns whether the header is right. */
  #readHeader(fd: number): boolean {
    const header = Buffer.alloc(headerBytes)
    if (readSync(fd, header, 0, headerBytes, 0) < headerBytes) return false
    const sum = checksum(header.subarray(0, 24), [0, 0])
    if (header.readUInt32BE(0) !== magic || header.readUInt32BE(8) !== pageBytes) return false
    if (!isSum(header, 24, sum)) return false
    const salt = header.toString('hex', 16, 24)
    if (salt !== this.#salt) {
      this.#salt = salt
      this.#place = { at: headerBytes, sum }
    }
    return true
  }

  #readFrames(fd: number): CommittedPages {
    const frame = Buffer.alloc(frameHeaderBytes + pageBytes)
    const sums = new Map<number, number>()
    const uncommitted = new Map<number, number>()
    let pageCount: number | undefined
    for (let { at, sum } = this.#place; readSync(fd, frame, 0, frame.length, at) === frame.length; ) {
      if (frame.toString('hex', 8, 16) !== this.#salt) break
      const page = frame.subarray(frameHeaderBytes)
      sum = checksum(page, checksum(frame.subarray(0, 8), sum))
      if (!isSum(frame, 16, sum)) break
      at += frame.length
      uncommitted.set(frame.readUInt32BE(0), crc32(page))
      const pagesAfterCommit = frame.readUInt32BE(4)
      if (pagesAfterCommit === 0) continue
      pageCount = pagesAfterCommit
      for (const [number, value] of uncommitted) sums.set(number, value)
      uncommitted.clear()
      this.#place = { at, sum }
    }
    return { sums, pageCount }
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}

/** SQLite's checksum of pairs of words. */
function checksum(bytes: Buffer, [first, second]: Sum): Sum {
  let [one, other] = [first, second]
  for (let at = 0; at < bytes.length; at += 8) {
    one = (one + bytes.readUInt32LE(at) + other) >>> 0
    other = (other + bytes.readUInt32LE(at + 4) + one) >>> 0
  }
  return [one, other]
}

function isSum(bytes: Buffer, at: number, [first, second]: Sum): boolean {
  return bytes.readUInt32BE(at) === first && bytes.readUInt32BE(at + 4) === second
}
