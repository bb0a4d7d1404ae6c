import type { SQLInputValue } from 'node:sqlite'
import { crc32 } from 'node:zlib'

/** CRC-32 of the values of some columns, in their order. Bytes count as such, everything else as its text. */
export function valuesChecksum(values: readonly SQLInputValue[]): number {
  let sum = 0
  for (const value of values) {
    // What is before each value keeps it apart from its neighbours, and a text from null.
    sum = crc32(value === null ? 'null,' : `${typeof value},`, sum)
    if (value !== null) sum = crc32(ArrayBuffer.isView(value) ? value : String(value), sum)
  }
  return sum
}
