import type { CallOutput } from '@slipway/client'
import { eventKinds, eventSources } from '@slipway/protocol/client'
import type { CommandContext } from '../../context/command-context.ts'
import { nearestWord } from '../../context/nearest-word.ts'
import type { ConversationSource, EventPageQuery } from '../../conversation/source/source.ts'
import { summarizeEvent } from '../../output/event-line.ts'
import { listPages } from '../../output/list-pages.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { eventColumns, eventWidths, paint, print, printNote, table } from '../../output/terminal.ts'

export type SearchQuery = EventPageQuery

/** Prints the events of a page, or of all pages, or counts what matches. */
export async function searchCommand(
  context: { readonly source: ConversationSource; readonly isJson: boolean },
  id: string,
  query: SearchQuery,
  options: { readonly all: boolean; readonly count: boolean },
): Promise<void> {
  const { source, isJson } = context
  if (options.count) {
    const { limit: _, page_id: __, sort_order: ___, ...filter } = query
    const count = await source.countEvents(id, filter)
    await print(`${count}\n`)
    if (count === 0 && !isJson) printUnknownWords(query)
    return
  }
  await listPages({
    open: (page_id) => source.openEvents(id, { ...query, page_id }),
    table: eventTable,
    isJson,
    all: options.all,
    nothing: ['No event matches.', ...unknownWords(query)].join(' '),
    more: (pageId) => `--page-id ${pageId}, or --all`,
    pageId: query.page_id,
  })
}

/** Kinds and sources that events of this version do not have; logs of other versions may. */
function unknownWords({ kind, source }: SearchQuery): string[] {
  const filters = [
    ['kind', kind, eventKinds],
    ['source', source, eventSources],
  ] as const
  return filters.flatMap(([name, word, known]) =>
    word === undefined || word === '' || known.some((one) => one === word)
      ? []
      : [`There is no ${name} ${sanitizeLine(word)}. Is it ${nearestWord(word, known).word}?`],
  )
}

function printUnknownWords(query: SearchQuery): void {
  for (const line of unknownWords(query)) printNote(line)
}

/** Events as JSON texts, a line for each. */
export function eventTable(items: readonly string[], hasHead: boolean): string {
  const rows = items.map((item) => eventColumns(summarizeEvent(JSON.parse(item))))
  return table(rows, eventWidths(), hasHead ? ['TIME', 'KIND', 'SOURCE', 'SUMMARY'] : undefined)
}

/** Prints conversations whose messages contain a text, as they are found, until the limit or Ctrl-C. */
export async function searchTextsCommand(
  { client, isJson, signal }: CommandContext,
  query: {
    readonly body: string
    readonly status?: string
    readonly tag?: string[]
    readonly timestamp__gte?: string | undefined
    readonly timestamp__lt?: string | undefined
  },
  { limit, isWide }: { readonly limit: number; readonly isWide: boolean },
): Promise<void> {
  let found = 0
  let page_id: string | undefined
  do {
    const search = { ...query, limit: String(Math.min(100, limit - found)), page_id }
    const page = await client.call('searchConversationTexts', { query: search, signal })
    for (const item of page.items) {
      if (isJson) await print(`${JSON.stringify(item)}\n`)
      else await print(hitLines(item, isWide))
    }
    found += page.items.length
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined && found < limit)
  if (page_id !== undefined) printNote('There may be more: --limit')
  else if (found === 0 && !isJson) printNote('No message contains this.')
}

type TextHits = CallOutput<'searchConversationTexts'>['items'][number]

function hitLines({ conversation_id, title, hits }: TextHits, isWide: boolean): string {
  const lines = hits.map(({ position, timestamp, text, match: [from = 0, to = 0] }) => {
    const [before, hit, after] = [text.slice(0, from), text.slice(from, to), text.slice(to)].map((part) =>
      sanitizeLine(part),
    )
    const time = isWide ? `${sanitizeLine(String(timestamp))}  ` : ''
    return `  ${position}  ${time}${before}${paint('bold', hit ?? '')}${after}`
  })
  return [`${conversation_id}  ${sanitizeLine(title ?? '')}`, ...lines, ''].join('\n')
}
