import type { Handlers, Reply } from '@slipway/http'
import { type EventFilter, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import {
  type ConversationRecord,
  type EventQuery,
  eventListBytes,
  exportEvents,
  gzipStream,
  pageBytes,
  readRange,
  type Storage,
  searchTexts,
  Timelines,
} from '@slipway/storage'
import type { AppConversationRow } from '@slipway/storage/control-plane'
import { getCaller } from '../auth/authenticator.ts'
import type { Conversations } from '../conversations/conversations.ts'
import { toHexId } from '../conversations/records/conversation-ids.ts'
import { parseMetadata } from '../conversations/records/conversation-info.ts'

interface EventsRequest {
  readonly caller: unknown
  readonly params: { readonly conversation_id: string }
  header(name: string): string | undefined
}

type Filters = EventFilter & {
  readonly kind__eq?: string | undefined
  readonly source__eq?: string | undefined
}

/** Stored events, also without a sandbox. Conversations of others are empty (wire 1.4). */
export function eventHandlers(deps: {
  readonly conversations: Pick<Conversations, 'findOwned' | 'list'>
  readonly storage: Pick<Storage, 'log' | 'conversations'>
}) {
  const { storage, conversations } = deps
  const { log } = storage
  const timelines = new Timelines(log)

  /** The result of `read`, or `fallback` for a conversation that is foreign, empty or just deleted. */
  async function readOwned<T>(
    request: EventsRequest,
    fallback: T,
    read: (record: ConversationRecord, row: AppConversationRow) => Promise<T>,
  ): Promise<T> {
    const { conversation_id: id } = request.params
    const [row] = await conversations.findOwned(getCaller(request), [id])
    const [record] = row === undefined ? [] : await storage.conversations.get([id])
    if (row === undefined || record === undefined) return fallback
    try {
      return await read(record, row)
    } catch (error) {
      if (error instanceof Problem && error.code === 'not_found') return fallback
      throw error
    }
  }

  async function search(request: EventsRequest & { readonly query: EventQuery & Filters }): Promise<Reply> {
    const query = { ...request.query, ...toEventFilter(request.query) }
    const page = await readOwned(request, undefined, ({ id }) => log.search(id, query))
    if (page === undefined) return { json: { items: [], next_page_id: null } }
    const { bytes, etag } = pageBytes(page)
    if (etag === undefined) return { bytes }
    const headers = { etag, 'cache-control': 'no-cache' }
    return request.header('if-none-match') === etag
      ? { status: 304, bytes: Buffer.alloc(0), headers }
      : { bytes, headers }
  }

  async function count(request: EventsRequest & { readonly query: Filters }): Promise<Reply> {
    return { json: await readOwned(request, 0, ({ id }) => log.count(id, toEventFilter(request.query))) }
  }

  return {
    searchHomeEvents: search,
    searchHomeEventsPlural: search,
    countHomeEvents: count,
    countHomeEventsPlural: count,
    async getHomeEvents(request): Promise<Reply> {
      const ids = request.query.id
      const none = ids.map(() => undefined)
      return { bytes: eventListBytes(await readOwned(request, none, ({ id }) => log.get(id, ids))) }
    },
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
    async exportHomeEvents(request): Promise<Reply> {
      const { meta, gzip } = request.query
      const chunks = await readOwned(request, emptyStream(), async (record, row) =>
        // Title and tags are stored in the row.
        exportEvents(log, { ...record, title: row.title, tags: parseMetadata(row).tags ?? {} }, { meta }),
      )
      const name = `conversation-${toHexId(request.params.conversation_id)}.jsonl`
      const disposition = (file: string) => ({ 'content-disposition': `attachment; filename="${file}"` })
      return gzip
        ? { contentType: 'application/gzip', headers: disposition(`${name}.gz`), chunks: gzipStream(chunks) }
        : { contentType: 'application/x-ndjson', headers: disposition(name), chunks }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** Filters have two names; the long ones win. */
function toEventFilter(query: Filters): EventFilter {
  const { kind__eq, source__eq, kind, source, body, timestamp__gte, timestamp__lt } = query
  return { kind: kind__eq ?? kind, source: source__eq ?? source, body, timestamp__gte, timestamp__lt }
}

async function* emptyStream(): AsyncGenerator<Buffer> {}
