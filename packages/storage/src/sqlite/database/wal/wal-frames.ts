import { readSync } from 'node:fs'

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
const littleEndianMagic = 0x377f0682

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
  const header = Buffer.alloc(headerBytes)
  readSync(fd, header, 0, headerBytes, 0)
  const isLittleEndian = header.readUInt32BE(0) === littleEndianMagic
  const sum = new WalChecksum(isLittleEndian)
  sum.add(header, 0, 24)
  if (header.toString('latin1', 16, 24) !== salts || !sum.isAt(header, 24)) return false
  const frame = Buffer.alloc(frameHeaderBytes + header.readUInt32BE(8))
  for (let index = 0; index < frames; index++) {
    const size = readSync(fd, frame, 0, frame.length, headerBytes + index * frame.length)
    if (size < frame.length || frame.toString('latin1', 8, 16) !== salts) return false
    sum.add(frame, 0, 8)
    sum.add(frame, frameHeaderBytes, frame.length)
    if (!sum.isAt(frame, 16)) return false
  }
  return true
}

/** The checksum of a log, which goes on from frame to frame. */
class WalChecksum {
  readonly #isLittleEndian: boolean
  #first = 0
  #second = 0

  constructor(isLittleEndian: boolean) {
    this.#isLittleEndian = isLittleEndian
  }

  add({ buffer, byteOffset }: Buffer, from: number, to: number): void {
    const words = new DataView(buffer, byteOffset)
    for (let at = from; at < to; at += 8) {
      this.#first = (this.#first + words.getUint32(at, this.#isLittleEndian) + this.#second) >>> 0
      this.#second = (this.#second + words.getUint32(at + 4, this.#isLittleEndian) + this.#first) >>> 0
    }
  }

  /** Whether it is stored there. */
  isAt(bytes: Buffer, at: number): boolean {
    return bytes.readUInt32BE(at) === this.#first && bytes.readUInt32BE(at + 4) === this.#second
  }
}
