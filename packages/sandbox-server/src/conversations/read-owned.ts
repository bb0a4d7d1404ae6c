import { Problem } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import { getCaller } from '../auth/authenticator.ts'
import type { Conversations } from './conversations.ts'

export interface EventsRequest {
  readonly caller: unknown
  readonly params: { readonly conversation_id: string }
  header(name: string): string | undefined
}

export interface OwnedReaderDeps {
  readonly conversations: Pick<Conversations, 'findOwned' | 'list'>
  readonly storage: Pick<Storage, 'log' | 'conversations'>
}

/** Reads logs of conversations of the caller. */
export function ownedReader({ conversations, storage }: OwnedReaderDeps) {
  /** The result of `read`, or `fallback` for a conversation that is foreign, empty or just deleted. */
  return async function readOwned<T>(
    request: EventsRequest,
    fallback: T,
    read: (record: ConversationRecord, row: AppConversationRow) => Promise<T>,
  ): Promise<T> {
    const { conversation_id: id } = request.params
    const [row] = await conversations.findOwned(getCaller(request), [id])
    const [record] = row === undefined ? [] : await storage.conversations.get([id])
    if (row === undefined || record === undefined) return fallback
    try {
      return await read(record, row)
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_found') return fallback
      throw error
    }
  }
}
