import type { CallInput } from '@slipway/client'
import type { ConversationInfo } from '@slipway/protocol'
import type { CommandContext } from '../context/command-context.ts'
import { sanitizeLine } from '../output/sanitize.ts'
import { print, printNote, table } from '../output/terminal.ts'
import { parseRawPage } from '../parsing/raw-page.ts'

export type ConversationsQuery = NonNullable<CallInput<'searchConversations'>['query']>

/** Lists conversations, the newest first. */
export async function conversationsCommand(
  context: CommandContext,
  query: ConversationsQuery,
  options: { readonly all: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  let page_id: string | undefined
  let isFirst = true
  do {
    const response = await client.open('searchConversations', { query: { ...query, page_id }, signal })
    const { items, next_page_id } = parseRawPage(await response.text())
    if (isJson) await print(items.map((item) => `${item}\n`).join(''))
    else if (items.length === 0 && isFirst)
      printNote('There is no conversation yet. "slipway import FILE" brings one in.')
    else await print(await conversationTable(context, items, isFirst))
    isFirst = false
    page_id = next_page_id ?? undefined
  } while (options.all && page_id !== undefined)
  if (page_id !== undefined) printNote('There are more: --all')
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
