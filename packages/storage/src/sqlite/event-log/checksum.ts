import { crc32 } from 'node:zlib'
import type { Moment } from '@slipway/protocol'

/**
 * CRC-32 of a stored event: its row (conversation and position), its moment, its stored id and its bytes.
 */
export function eventChecksum(
  row: number,
  storedId: string,
  { instant, finer }: Moment,
  body: Uint8Array,
): number {
  // The lower and upper halves of both numbers; no text is made of them, because this runs for every append.
  const seed = (row ^ (row / 2 ** 28) ^ instant ^ (instant / 2 ** 32)) >>> 0
  const head = crc32(storedId, seed)
  // A damaged value may be of another type.
  return crc32(body, finer ? crc32(String(finer), head) : head)
}
