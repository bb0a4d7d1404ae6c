import { crc32 } from 'node:zlib'

/** CRC-32 of a text in UTF-8, as eight hex digits. */
export function textChecksum(text: string): string {
  return crc32(text).toString(16).padStart(8, '0')
}
