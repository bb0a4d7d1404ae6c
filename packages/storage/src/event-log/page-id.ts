import { hash } from 'node:crypto'
import { createPageIdCodec } from '../paging/page-id-codec.ts'

const conversationBytes = 4
const eventBytes = 7
const codec = createPageIdCodec<Buffer>(
  'p2_',
  (bytes) => bytes,
  (bytes) => (bytes.length === 4 + conversationBytes + eventBytes ? bytes : undefined),
)
/** Of versions before 0.2.0: a position and one digest of both ids. */
const firstDigestBytes = 8
const firstCodec = createPageIdCodec<Buffer>(
  'p1_',
  (bytes) => bytes,
  (bytes) => (bytes.length === 4 + firstDigestBytes ? bytes : undefined),
)

/**
 * Names an event of a conversation by its position, a digest of the conversation's id and one of both ids.
 */
export function encodeEventPageId(conversation: string, position: number, eventId: string): string {
  const bytes = Buffer.alloc(4 + conversationBytes + eventBytes)
  bytes.writeUInt32BE(position)
  conversationDigest(conversation).copy(bytes, 4)
  digest(conversation, position, eventId).copy(bytes, 4 + conversationBytes, 0, eventBytes)
  return codec.encode(bytes)
}

/** The position in a page id of any version; valid when `isPageIdOf` the event there. */
export function decodeEventPageId(text: string): number | undefined {
  return (codec.decode(text) ?? firstCodec.decode(text))?.readUInt32BE()
}

/** Whether a page id, of any version, names this event. */
export function isPageIdOf(text: string, conversation: string, position: number, eventId: string): boolean {
  if (text === encodeEventPageId(conversation, position, eventId)) return true
  const bytes = firstCodec.decode(text)
  const expected = digest(conversation, position, eventId).subarray(0, firstDigestBytes)
  return bytes !== undefined && bytes.readUInt32BE() === position && bytes.subarray(4).equals(expected)
}

/** Whether a page id names an event of this conversation, which its log may not have (any more). */
export function isPageIdIn(text: string, conversation: string): boolean {
  const named = codec.decode(text)?.subarray(4, 4 + conversationBytes)
  return named?.equals(conversationDigest(conversation)) === true
}

let last: { readonly conversation: string; readonly digest: Buffer } | undefined

/** Pages are read one after another, so the last digest is reused. */
function conversationDigest(conversation: string): Buffer {
  if (last?.conversation !== conversation)
    last = { conversation, digest: hash('sha256', conversation, 'buffer').subarray(0, conversationBytes) }
  return last.digest
}

function digest(conversation: string, position: number, eventId: string): Buffer {
  return hash('sha256', `${conversation}\n${position}\n${eventId}`, 'buffer')
}
