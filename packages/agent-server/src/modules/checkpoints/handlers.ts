import type { Handlers } from '@slipway/http'
import type { checkpointRoutes } from '@slipway/protocol'
import type { ConversationRegistry } from '../../core/conversations/registry.ts'

const maxPaths = 200

/** The files of a conversation's workspace before each step. */
export function checkpointHandlers({
  registry,
}: {
  readonly registry: Pick<ConversationRegistry, 'get'>
}): Handlers<typeof checkpointRoutes> {
  const getConversation = (id: string) => registry.get(id)
  return {
    async listCheckpoints({ params }) {
      const checkpoints = await (await getConversation(params.conversation_id)).checkpoints()
      return {
        json: { items: [...(await checkpoints.list())], off_reason: (await checkpoints.offReason()) ?? null },
      }
    },
    async getCheckpointDiff({ params }) {
      const checkpoints = await (await getConversation(params.conversation_id)).checkpoints()
      return { json: await checkpoints.diff(params.checkpoint_id) }
    },
    async restoreCheckpoint({ params }) {
      const conversation = await getConversation(params.conversation_id)
      const restored = await conversation.restoreCheckpoint(params.checkpoint_id)
      const { saved, paths } = restored
      const [kept, clashes] = [restored.kept, restored.clashes].map((some) => some.slice(0, maxPaths))
      return { json: { saved, total: paths.length, paths: paths.slice(0, maxPaths), kept, clashes } }
    },
  }
}
