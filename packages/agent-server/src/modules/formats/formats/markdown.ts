import { firstLine, toMarkdown } from '@slipway/protocol/event-text'
import type { WriteFormat } from './format.ts'
import { shownEvents } from './shown-events.ts'

export const writeMarkdown: WriteFormat = async function* ({ record, batches }) {
  const title = firstLine(record.title ?? '') || record.id
  yield Buffer.from(`# ${title}\n\nConversation ${record.id}, ${record.head} events.\n`)
  for await (const events of batches) yield Buffer.from(`\n${toMarkdown(shownEvents(events))}`)
}
