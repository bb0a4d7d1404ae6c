import type { CallInput } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import type { CommandContext } from '../context/command-context.ts'
import { listPages } from '../output/list-pages.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { table } from '../output/terminal.ts'

type ConversationsQuery = NonNullable<CallInput<'searchConversations'>['query']>

/** Lists conversations, the newest first. */
export async function conversationsCommand(
  context: CommandContext,
  query: ConversationsQuery,
  options: { readonly all: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  await listPages({
    open: (page_id) => client.open('searchConversations', { query: { ...query, page_id }, signal }),
    table: (items, hasHead) => conversationTable(context, items, hasHead),
    isJson,
    all: options.all,
    nothing: 'There is no conversation yet. "slipway import FILE" imports one.',
  })
}

async function conversationTable(
  context: CommandContext,
  items: readonly string[],
  hasHead: boolean,
): Promise<string> {
  const { client, signal } = context
  const rows = items.map(async (item) => {
    const info: ConversationInfo = JSON.parse(item)
    const count = await client.call('countEvents', { params: { conversation_id: info.id }, signal })
    const updated = sanitizeLine(String(info.updated_at)).slice(0, 19).replace('T', ' ')
    return [info.id, info.execution_status, String(count), updated, sanitizeLine(info.title ?? '')]
  })
  const head = ['ID', 'STATUS', 'EVENTS', 'UPDATED', 'TITLE']
  return table(await Promise.all(rows), [37, 25, 10, 20], hasHead ? head : undefined)
}
