import { hash } from 'node:crypto'

const prefix = 'p1_'
const digestBytes = 8

/** An opaque text that names one event of one conversation, the same after every restart. */
export function encodePageId(conversation: string, position: number, eventId: string): string {
  const bytes = Buffer.alloc(4 + digestBytes)
  bytes.writeUInt32BE(position)
  hash('sha256', `${conversation}\n${position}\n${eventId}`, 'buffer').copy(bytes, 4, 0, digestBytes)
  return prefix + bytes.toString('base64url')
}

/** The position that a page id claims; compare `pageId` of what stands there with the text before believing it. */
export function decodePageId(text: string): number | undefined {
  if (!text.startsWith(prefix)) return undefined
  const bytes = Buffer.from(text.slice(prefix.length), 'base64url')
  return bytes.length === 4 + digestBytes ? bytes.readUInt32BE() : undefined
}
