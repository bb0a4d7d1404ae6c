import { join } from 'node:path'

/** The folder of a conversation's files below the one of all conversations: its id without hyphens. */
export function conversationFolder(directory: string, id: string): string {
  return join(directory, id.replaceAll('-', ''))
}
