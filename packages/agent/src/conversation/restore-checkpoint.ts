import { Problem } from '@slipway/protocol'
import type { Restored, WorkspaceCheckpoints } from '../checkpoints/workspace-checkpoints.ts'
import type { ConversationParts } from './conversation-parts.ts'
import { userMessage } from './events/event-drafts.ts'

/** Paths that the agent is told. */
const maxNamed = 20

/** A Problem `conflict` when the server makes none. */
export async function openCheckpoints({ runtimes }: ConversationParts): Promise<WorkspaceCheckpoints> {
  const { checkpoints } = await runtimes.open()
  if (checkpoints !== undefined) return checkpoints
  throw new Problem('conflict', 'This server makes no checkpoints: SLIPWAY_CHECKPOINTS is not set.')
}

/** Restores the workspace while nothing runs, and tells the agent which files changed. */
export async function restoreCheckpoint(parts: ConversationParts, id: string): Promise<Restored> {
  const { context, runs } = parts
  const checkpoints = await openCheckpoints(parts)
  return await runs.runWhileIdle(async () => {
    const restored = await checkpoints.restore(id)
    const { paths } = restored
    if (paths.length > 0) await context.append(() => [userMessage('environment', noticeText(paths))])
    return restored
  })
}

function noticeText(paths: readonly string[]): string {
  const named = paths.slice(0, maxNamed).join(', ')
  const more = paths.length > maxNamed ? ` and ${paths.length - maxNamed} more` : ''
  return `The user restored the files of the workspace to an earlier state. These files changed: ${named}${more}. Read them again before you rely on them.`
}
