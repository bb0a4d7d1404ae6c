import type { Storage } from '@slipway/storage'
import type { ConversationInfoReader } from './conversation-info.ts'
import type { ConversationRegistry } from './registry.ts'

/**
 * Removes a conversation with everything that is kept of it, and with it the conversations that do its tasks, and theirs: they
 * came from it, and without it nobody would know them. Conversations that only name it as their parent stay. The deepest go
 * first, so that what a crash leaves behind is found again by whoever deletes it again. False when there was none.
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
