import type { ConversationRecord } from '@slipway/storage'
import { expect, test } from 'vitest'
import { keyHandlers } from './handlers.ts'

test('no key stays bound to a conversation that is removed while the key is made', async () => {
  const id = '7f3c1de2-52a4-4b1e-9a54-0c2f6a3b9d10'
  const removed: string[] = []
  let found: ConversationRecord | undefined = { id } as ConversationRecord
  const keys = {
    create: async () => {
      found = undefined
      return { id: 'k', key: 'sk-slipway-secret' }
    },
    remove: async (key: string) => void removed.push(key),
  }
  const deps = { keys, conversations: { get: async () => [found] }, isKeyless: false }
  const { createKey } = keyHandlers(deps as unknown as Parameters<typeof keyHandlers>[0])
  const body = { name: 'n', scopes: ['read'], conversation_id: id }
  await expect((async () => await createKey({ body } as never))()).rejects.toThrow('not found')
  expect(removed).toEqual(['k'])
})
