import type { Handlers } from '@slipway/http'
import { invalidInput, type keyRoutes, Problem } from '@slipway/protocol'
import type { Storage } from '@slipway/storage'
import { getConversationRecord } from '../../core/conversations/conversation-info.ts'
import type { ScopedKeys } from './scoped-keys.ts'

export function keyHandlers({
  keys,
  conversations,
  isKeyless,
}: {
  readonly keys: ScopedKeys
  readonly conversations: Storage['conversations']
  /** No request needs a key, so no key could limit one. */
  readonly isKeyless: boolean
}): Handlers<typeof keyRoutes> {
  return {
    listKeys: async () => ({ json: await keys.list() }),
    async createKey({ body }) {
      if (isKeyless)
        throw new Problem('conflict', 'This server requires no key: a key with scopes would limit nobody')
      const { conversation_id: id, scopes } = body
      if (id !== undefined && scopes.includes('answer'))
        throw invalidInput(
          ['body', 'scopes'],
          'A key that is bound to a conversation answers no question: leave out the scope answer',
        )
      if (id !== undefined) await getConversationRecord(conversations, id)
      const key = await keys.create(body)
      // One that was removed meanwhile left the key behind, for the next conversation of that id.
      if (id !== undefined)
        await getConversationRecord(conversations, id).catch(async (error: unknown) => {
          await keys.remove(key.id).catch(() => {})
          throw error
        })
      return { status: 201, json: key }
    },
    async deleteKey({ params }) {
      await keys.remove(params.key_id)
      return { json: { success: true } }
    },
  }
}
