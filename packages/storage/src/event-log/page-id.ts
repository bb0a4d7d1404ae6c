import { hash } from 'node:crypto'
import { createPageIdCodec } from '../paging/page-id-codec.ts'

const digestBytes = 8
const codec = createPageIdCodec<Buffer>(
  'p1_',
  (bytes) => bytes,
  (bytes) => (bytes.length === 4 + digestBytes ? bytes : undefined),
)

/** Names an event of a conversation by its position and a digest of both ids. */
export function encodeEventPageId(conversation: string, position: number, eventId: string): string {
  const bytes = Buffer.alloc(4 + digestBytes)
  bytes.writeUInt32BE(position)
  hash('sha256', `${conversation}\n${position}\n${eventId}`, 'buffer').copy(bytes, 4, 0, digestBytes)
  return codec.encode(bytes)
}

/** The position in a page id, valid when `encodeEventPageId` of the event there returns the same text. */
export function decodeEventPageId(text: string): number | undefined {
  return codec.decode(text)?.readUInt32BE()
}
