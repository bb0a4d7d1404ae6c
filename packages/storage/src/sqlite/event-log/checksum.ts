import { crc32 } from 'node:zlib'
import type { Instant } from '@slipway/protocol'

/** CRC-32 of a stored event: its row (conversation and position), its stored id, its instant and its bytes. */
export function eventChecksum(row: number, storedId: string, instant: Instant, body: Uint8Array): number {
  return crc32(body, crc32(`${row}\0${storedId}\0${instant}`))
}
