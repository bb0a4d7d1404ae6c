import type { CallInput } from '@slipway/client'
import type { CommandContext } from '../context/command-context.ts'
import { summarizeEvent } from '../output/event-line.ts'
import { eventColumns, eventWidths, print, printNote, table } from '../output/terminal.ts'
import { parseRawPage } from '../parsing/raw-page.ts'

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
  let { page_id } = query
  let isFirst = true
  do {
    const response = await client.open('searchEvents', { params, query: { ...query, page_id }, signal })
    const { items, next_page_id } = parseRawPage(await response.text())
    if (isJson) await print(items.map((item) => `${item}\n`).join(''))
    else if (items.length === 0 && isFirst) printNote('No event matches.')
    else await print(eventTable(items, isFirst))
    isFirst = false
    page_id = next_page_id ?? undefined
  } while (options.all && page_id !== undefined)
  if (page_id !== undefined) printNote(`There are more: --page-id ${page_id}, or --all`)
}

/** Events as JSON texts, a line for each. */
export function eventTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => eventColumns(summarizeEvent(JSON.parse(item))))
  return table(rows, eventWidths(), hasHead ? ['TIME', 'KIND', 'SOURCE', 'SUMMARY'] : undefined)
}
