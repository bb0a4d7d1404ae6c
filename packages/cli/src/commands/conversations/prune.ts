import { CallError } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import type { CommandContext } from '../../context/command-context.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote } from '../../output/terminal.ts'

interface PruneOptions {
  /** Age of the last change. */
  readonly olderThanMs: number
  /** Keep conversations that have a tag. */
  readonly keepTagged: boolean
  /** Only list what would be deleted. */
  readonly dryRun: boolean
}

/** Statuses of conversations that something is done in. */
const activeStatuses: ReadonlySet<string> = new Set(['running', 'waiting_for_confirmation'])

/** Deletes conversations that have not changed for long, and prints each. */
export async function pruneCommand(context: CommandContext, options: PruneOptions): Promise<void> {
  const { client, isJson, signal } = context
  const old = await listOld(context, options)
  let count = 0
  for (const { id, title, updated_at } of old) {
    if (!options.dryRun) {
      try {
        await client.call('deleteConversation', { params: { conversation_id: id }, signal })
      } catch (error) {
        // With its parent, or by somebody else.
        if (error instanceof CallError && error.status === 404) continue
        throw error
      }
    }
    count++
    const line = `${id}  ${String(updated_at).slice(0, 19)}  ${sanitizeLine(title ?? '')}`
    await print(`${isJson ? JSON.stringify({ id, updated_at, deleted: !options.dryRun }) : line}\n`)
  }
  printNote(
    options.dryRun ? `${count} conversations would be deleted.` : `${count} conversations were deleted.`,
  )
}

/** All before the first deletion, because a page begins at a conversation. */
async function listOld(
  { client, signal }: CommandContext,
  { olderThanMs, keepTagged }: PruneOptions,
): Promise<ConversationInfo[]> {
  const before = Date.now() - olderThanMs
  const old: ConversationInfo[] = []
  let page_id: string | undefined
  do {
    const query = { sort_order: 'UPDATED_AT', limit: '100', page_id } as const
    const page = await client.call('searchConversations', { query, signal })
    for (const info of page.items) {
      if (Date.parse(String(info.updated_at)) >= before) return old
      const isTagged = Object.keys(info.tags ?? {}).length > 0
      if (activeStatuses.has(info.execution_status) || (keepTagged && isTagged)) continue
      old.push(info)
    }
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
  return old
}
