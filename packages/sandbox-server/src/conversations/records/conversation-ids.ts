import { conversationId } from '@slipway/protocol'

/** An id as it leaves this server: 32 hex digits. */
export function hexOf(id: string): string {
  return id.replaceAll('-', '')
}

/** A UUID in any spelling as it is kept, in lower case with dashes; undefined for anything else. */
export function uuidOf(text: unknown): string | undefined {
  return conversationId.safeParse(text).data
}
