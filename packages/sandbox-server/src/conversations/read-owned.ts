import { Problem } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import { getCaller } from '../auth/authenticator.ts'
import type { Conversations } from './conversations.ts'

interface ConversationRequest {
  readonly caller: unknown
  readonly params: { readonly conversation_id: string }
}

export interface EventsRequest extends ConversationRequest {
  header(name: string): string | undefined
}

/** Gets the conversation of a request; a Problem `not_found` for those of others. */
export function ownedGetter(conversations: Pick<Conversations, 'getOwned'>) {
  return (request: ConversationRequest) =>
    conversations.getOwned(getCaller(request), request.params.conversation_id)
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
