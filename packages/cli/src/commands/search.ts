import type { CallInput } from '@slipway/client'
import type { CommandContext } from '../context/command-context.ts'
import { summarizeEvent } from '../output/event-line.ts'
import { listPages } from '../output/list-pages.ts'
import { eventColumns, eventWidths, print, table } from '../output/terminal.ts'

export type SearchQuery = NonNullable<CallInput<'searchEvents'>['query']>

/** Prints the events of a page, or of all pages, or counts what matches. */
export async function searchCommand(
  context: CommandContext,
  id: string,
  query: SearchQuery,
  options: { readonly all: boolean; readonly count: boolean },
): Promise<void> {
  const { client, isJson, signal } = context
  const params = { conversation_id: id }
  if (options.count) {
    const { limit: _, page_id: __, sort_order: ___, ...filter } = query
    return print(`${await client.call('countEvents', { params, query: filter, signal })}\n`)
  }
  await listPages({
    open: (page_id) => client.open('searchEvents', { params, query: { ...query, page_id }, signal }),
    table: eventTable,
    isJson,
    all: options.all,
    nothing: 'No event matches.',
    more: (pageId) => `--page-id ${pageId}, or --all`,
    pageId: query.page_id,
  })
}

/** Events as JSON texts, a line for each. */
export function eventTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => eventColumns(summarizeEvent(JSON.parse(item))))
  return table(rows, eventWidths(), hasHead ? ['TIME', 'KIND', 'SOURCE', 'SUMMARY'] : undefined)
}
