import type { ConversationSource, ConversationSummary } from './source.ts'

const pageSize = 100

/** All conversations of a server page by page, the newest first. */
export async function* listConversations(
  source: Pick<ConversationSource, 'list'>,
  query: { readonly status?: string | undefined } = {},
): AsyncGenerator<ConversationSummary> {
  let page_id: string | undefined
  do {
    const page = await source.list({ ...query, limit: pageSize, page_id })
    yield* page.items
    page_id = page.nextPageId
  } while (page_id !== undefined)
}
