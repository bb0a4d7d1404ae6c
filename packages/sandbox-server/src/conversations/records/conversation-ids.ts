import { conversationId } from '@slipway/protocol'

/** An id as it leaves this server: 32 hex digits. */
export function toHexId(id: string): string {
  return id.replaceAll('-', '')
}

/** A UUID in any spelling as it is kept, in lower case with dashes; undefined for anything else. */
export function parseUuid(text: unknown): string | undefined {
  return conversationId.safeParse(text).data
}
