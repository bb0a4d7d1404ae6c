import { crc32 } from 'node:zlib'
import type { Instant } from '@slipway/protocol'

/**
 * CRC-32 of a stored event: its row (conversation and position), its instant, its stored id and its bytes.
 */
export function eventChecksum(row: number, storedId: string, instant: Instant, body: Uint8Array): number {
  // The lower and upper halves of both numbers; no text is made of them, because this runs for every append.
  const seed = (row ^ (row / 2 ** 28) ^ instant ^ (instant / 2 ** 32)) >>> 0
  return crc32(body, crc32(storedId, seed))
}
