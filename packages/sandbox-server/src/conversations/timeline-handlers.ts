import type { Handlers, Reply } from '@slipway/http'
import type { sandboxServerRoutes } from '@slipway/protocol'
import { readRange, searchTexts, Timelines } from '@slipway/storage'
import { getCaller } from '../auth/authenticator.ts'
import { type OwnedReaderDeps, ownedReader } from './read-owned.ts'
import { toHexId } from './records/conversation-ids.ts'

/** Parts of long logs by position, and the texts of many logs. Conversations of others are empty. */
export function timelineHandlers(deps: OwnedReaderDeps) {
  const { storage, conversations } = deps
  const { log } = storage
  const timelines = new Timelines(log)
  const readOwned = ownedReader(deps)
  return {
    async readHomeEventRange(request): Promise<Reply> {
      const { query } = request
      const none = async () =>
        await readRange(log, { id: '', head: 0 }, { first: query.first, limit: query.limit })
      const bytes = await readOwned(request, undefined, (record) => readRange(log, record, query))
      return { bytes: bytes ?? (await none()) }
    },
    async homeEventsOverview(request): Promise<Reply> {
      const { buckets } = request.query
      const none = { head: 0, covered: 0, bucket_size: 1, buckets: [] }
      return { json: await readOwned(request, none, (record) => timelines.overview(record, buckets)) }
    },
    async findHomeEvents(request): Promise<Reply> {
      const none: Awaited<ReturnType<typeof timelines.find>> = { positions: [], next_from: null }
      return { json: await readOwned(request, none, (record) => timelines.find(record, request.query)) }
    },
    async searchAppConversationTexts(request): Promise<Reply> {
      const caller = getCaller(request)
      const { body, timestamp__gte, timestamp__lt, page_id, limit, ...filter } = request.query
      const list = (page: { readonly page_id: string | undefined; readonly limit: number }) =>
        conversations.list(caller, { ...filter, ...page })
      const found = await searchTexts(log, list, { body, timestamp__gte, timestamp__lt, page_id, limit })
      const items = found.items.map((item) => ({ ...item, conversation_id: toHexId(item.conversation_id) }))
      return { json: { ...found, items } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
