import { closeSync, openSync, readFileSync, readSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { crc32 } from 'node:zlib'

const chunkBytes = 1024 * 1024

/**
 * A small file beside index.db with the checksum of its bytes: there while no thread writes the index. A
 * changed bit in a page of the index would be a wrong search and no error.
 */
export function writeSeal(indexPath: string): void {
  writeFileSync(sealPath(indexPath), sumOf(indexPath), { mode: 0o600 })
}

export function removeSeal(indexPath: string): void {
  rmSync(sealPath(indexPath), { force: true })
}

/** Whether the index was closed and is what it was then. */
export function isSealed(indexPath: string): boolean {
  try {
    const wal = statSync(`${indexPath}-wal`, { throwIfNoEntry: false })
    return !wal?.size && readFileSync(sealPath(indexPath), 'utf8') === sumOf(indexPath)
  } catch {
    return false
  }
}

function sealPath(indexPath: string): string {
  return indexPath.replace(/\.db$/, '.sum')
}

function sumOf(path: string): string {
  const fd = openSync(path, 'r')
  try {
    const chunk = Buffer.alloc(chunkBytes)
    let [size, sum] = [0, 0]
    for (;;) {
      const length = readSync(fd, chunk, 0, chunk.length, size)
      if (length === 0) return `${size} ${sum.toString(16).padStart(8, '0')}\n`
      sum = crc32(chunk.subarray(0, length), sum)
      size += length
    }
  } finally {
    closeSync(fd)
  }
}
