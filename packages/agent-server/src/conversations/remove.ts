import type { Storage } from '@slipway/storage'
import type { ConversationInfoReader } from './conversation-info.ts'
import type { ConversationRegistry } from './registry.ts'

/**
 * Removes a conversation with its files, and recursively the conversations of its tasks. Conversations that only name it as their
 * parent stay. The deepest are removed first, so that after a crash a repeated request finds the rest. False when it did not exist.
 */
export async function removeConversation(
  deps: {
    readonly storage: Storage
    readonly registry: ConversationRegistry
    readonly infoReader: ConversationInfoReader
  },
  id: string,
): Promise<boolean> {
  const { storage, registry, infoReader } = deps
  const removeTasks = async () => {
    for (const task of await registry.tasks.listChildIds(id)) await removeConversation(deps, task)
  }
  await registry.close(id, { isDeleted: true })
  await removeTasks()
  const isRemoved = await storage.conversations.remove(id)
  // A request may have loaded it in between, and a task may have begun.
  await registry.close(id, { isDeleted: true })
  await removeTasks()
  if (isRemoved) await infoReader.removeFiles(id)
  return isRemoved
}
