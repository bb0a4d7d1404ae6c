import { setImmediate } from 'node:timers/promises'
import type { EventLog, PagedEvent } from '@slipway/storage'

const pageSize = 100

/** All events of a query, read page by page. A small first page suits searches that end early. */
export async function* searchEvents(
  log: Pick<EventLog, 'search'>,
  conversation: string,
  query: Omit<Parameters<EventLog['search']>[1], 'limit' | 'page_id'>,
  firstPage = pageSize,
): AsyncGenerator<PagedEvent> {
  let page_id: string | undefined
  for (let limit = firstPage; ; limit = pageSize) {
    const page = await log.search(conversation, { ...query, limit, page_id })
    yield* page.items
    if (page.next_page_id === null) return
    page_id = page.next_page_id
    await setImmediate()
  }
}
