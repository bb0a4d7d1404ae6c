import { conversationId } from '@slipway/protocol'

/** An id as on the wire: 32 hex digits. */
export function toHexId(id: string): string {
  return id.replaceAll('-', '')
}

/** A UUID in any spelling as stored, in lower case with dashes; undefined for anything else. */
export function parseUuid(text: unknown): string | undefined {
  return conversationId.safeParse(text).data
}
