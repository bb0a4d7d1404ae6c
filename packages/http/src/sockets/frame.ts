import type { Frame } from '../core/handler.ts'

/** A longer message is fragmented (RFC 6455 section 5.4), so that a ping can go between the fragments. */
const maxPayloadBytes = 65_535
const headerBytes = 4
/** The length of each fragment but the last, header and payload. */
export const fragmentBytes = headerBytes + maxPayloadBytes

/** Encodes UTF-8 bytes as one text message, which can be written to any number of sockets. */
export function createFrame(payload: Buffer): Frame {
  const fragments: Buffer[] = []
  let at = 0
  do {
    const fragment = payload.subarray(at, at + maxPayloadBytes)
    const isLast = at + fragment.length >= payload.length
    fragments.push(frameHeader(fragment.length, at === 0, isLast), fragment)
    at += fragment.length
  } while (at < payload.length)
  return { size: payload.length, bytes: Buffer.concat(fragments) }
}

function frameHeader(length: number, isFirst: boolean, isLast: boolean): Buffer {
  const start = (isLast ? 0x80 : 0) | (isFirst ? 0x01 : 0)
  return length < 126 ? Buffer.from([start, length]) : Buffer.from([start, 126, length >> 8, length & 0xff])
}
