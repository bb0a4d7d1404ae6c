import { closeSync, openSync, readSync } from 'node:fs'
import { crc32 } from 'node:zlib'
import { errorCode } from '@slipway/shared/fs'

/**
 * What a write-ahead log has, read without SQLite: https://sqlite.org/fileformat2.html#walformat. A header
 * of 32 bytes, then frames, each a header of 24 bytes and a page. `salts` are in the header and in each frame
 * that belongs to it: SQLite begins at the first frame again after a checkpoint, with other salts.
 */
export interface WalEnd {
  readonly salts: string
  /** Up to the end of the last commit. */
  readonly frames: number
}

const headerBytes = 32
const frameHeaderBytes = 24
/** Of the words that checksums are made of. */
const littleEndianMagic = 0x377f0682
const bigEndianMagic = 0x377f0683

/**
 * Where the commits end by the headers of frames, without their pages. Few are read: those that belong to the
 * log come first.
 *
 * @param known an earlier answer. @param guess frames that are probably there since.
 */
export function findWalEnd(fd: number, known?: WalEnd, guess = 1): WalEnd {
  const header = Buffer.allocUnsafe(headerBytes)
  if (readSync(fd, header, 0, headerBytes, 0) < headerBytes) return { salts: '', frames: 0 }
  const salts = header.toString('latin1', 16, 24)
  const frameBytes = frameHeaderBytes + header.readUInt32BE(8)
  const belongs = (frame: number) => {
    const size = readSync(fd, header, 0, frameHeaderBytes, headerBytes + (frame - 1) * frameBytes)
    return size === frameHeaderBytes && header.toString('latin1', 8, 16) === salts
  }
  const isCommit = (frame: number) => belongs(frame) && header.readUInt32BE(4) !== 0
  const first = known?.salts === salts ? known.frames : 0
  let frames = findLast(belongs, first, guess)
  // Those of a transaction that was rolled back follow the last commit.
  while (frames > first && !isCommit(frames)) frames--
  return { salts, frames }
}

/** The last number for which something holds that holds for all up to it, and for `from`. */
function findLast(holds: (n: number) => boolean, from: number, guess: number): number {
  let [low, high] = [from, from + Math.max(1, guess)]
  for (let step = 1; holds(high); step *= 2) [low, high] = [high, high + step]
  while (high - low > 1) {
    const middle = (low + high) >> 1
    if (holds(middle)) low = middle
    else high = middle
  }
  return low
}

/** Whether a log still has all frames up to an end, with the right checksums: SQLite takes them then. */
export function hasFrames(fd: number, { salts, frames }: WalEnd): boolean {
  if (frames === 0) return true
  const header = readHeader(fd)
  if (header?.salts !== salts) return false
  let count = 0
  for (const _ of readFrames(fd, header)) if (++count === frames) return true
  return false
}

/** Of databases that SQLite makes here. */
export const pageBytes = 4096

/** Pages that were committed to a write-ahead log. */
export interface CommittedPages {
  /** By number, from 1: checksums of their newest content. */
  readonly sums: ReadonlyMap<number, number>
  /** Of the database after the last commit; undefined when there was none. */
  readonly pageCount: number | undefined
}

/** Reads the write-ahead log of a database as SQLite does when it opens one, up to the last commit. */
export class WalPages {
  readonly #path: string
  #salts = ''
  #place: Place | undefined

  constructor(databasePath: string) {
    this.#path = `${databasePath}-wal`
  }

  /** What was committed since the last call. */
  read(): CommittedPages {
    const fd = openIfThere(this.#path)
    if (fd === undefined) return { sums: new Map(), pageCount: undefined }
    try {
      const header = readHeader(fd)
      if (header?.pageBytes !== pageBytes) return { sums: new Map(), pageCount: undefined }
      if (header.salts !== this.#salts) this.#place = undefined
      this.#salts = header.salts
      return this.#readCommits(fd, header)
    } finally {
      closeSync(fd)
    }
  }

  #readCommits(fd: number, header: Header): CommittedPages {
    const sums = new Map<number, number>()
    const uncommitted = new Map<number, number>()
    let pageCount: number | undefined
    for (const { frame, end } of readFrames(fd, header, this.#place)) {
      uncommitted.set(frame.readUInt32BE(0), crc32(frame.subarray(frameHeaderBytes)))
      const pagesAfterCommit = frame.readUInt32BE(4)
      if (pagesAfterCommit === 0) continue
      pageCount = pagesAfterCommit
      for (const [number, value] of uncommitted) sums.set(number, value)
      uncommitted.clear()
      this.#place = end
    }
    return { sums, pageCount }
  }
}

interface Header {
  readonly salts: string
  readonly pageBytes: number
  readonly isLittleEndian: boolean
  readonly sum: Sum
}

/** Where the next frame begins, with the running checksum before it. */
interface Place {
  readonly at: number
  readonly sum: Sum
}
type Sum = readonly [number, number]

/** Undefined unless it is whole. */
function readHeader(fd: number): Header | undefined {
  const bytes = Buffer.alloc(headerBytes)
  if (readSync(fd, bytes, 0, headerBytes, 0) < headerBytes) return undefined
  const magic = bytes.readUInt32BE(0)
  const isLittleEndian = magic === littleEndianMagic
  const sum = checksum(bytes.subarray(0, 24), [0, 0], isLittleEndian)
  if ((!isLittleEndian && magic !== bigEndianMagic) || !isSum(bytes, 24, sum)) return undefined
  const salts = bytes.toString('latin1', 16, 24)
  return { salts, pageBytes: bytes.readUInt32BE(8), isLittleEndian, sum }
}

/** Frames of this header with right checksums, each in the same buffer, with the place behind it. */
function* readFrames(
  fd: number,
  { salts, pageBytes, isLittleEndian, sum: first }: Header,
  from: Place = { at: headerBytes, sum: first },
): Generator<{ readonly frame: Buffer; readonly end: Place }> {
  const frame = Buffer.alloc(frameHeaderBytes + pageBytes)
  for (let { at, sum } = from; readSync(fd, frame, 0, frame.length, at) === frame.length; ) {
    if (frame.toString('latin1', 8, 16) !== salts) return
    const before = checksum(frame.subarray(0, 8), sum, isLittleEndian)
    sum = checksum(frame.subarray(frameHeaderBytes), before, isLittleEndian)
    if (!isSum(frame, 16, sum)) return
    at += frame.length
    yield { frame, end: { at, sum } }
  }
}

/** SQLite's checksum of pairs of words, which continues from frame to frame. */
function checksum(
  { buffer, byteOffset, length }: Buffer,
  [first, second]: Sum,
  isLittleEndian: boolean,
): Sum {
  const words = new DataView(buffer, byteOffset, length)
  let [one, other] = [first, second]
  for (let at = 0; at < length; at += 8) {
    one = (one + words.getUint32(at, isLittleEndian) + other) >>> 0
    other = (other + words.getUint32(at + 4, isLittleEndian) + one) >>> 0
  }
  return [one, other]
}

function isSum(bytes: Buffer, at: number, [first, second]: Sum): boolean {
  return bytes.readUInt32BE(at) === first && bytes.readUInt32BE(at + 4) === second
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return undefined
    throw error
  }
}
