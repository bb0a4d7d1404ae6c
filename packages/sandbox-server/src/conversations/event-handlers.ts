import type { Handlers, Reply } from '@slipway/http'
import type { EventFilter, sandboxServerRoutes } from '@slipway/protocol'
import { type EventQuery, eventListBytes, exportEvents, gzipStream, pageBytes } from '@slipway/storage'
import { type EventsRequest, type OwnedReaderDeps, ownedReader } from './read-owned.ts'
import { toHexId } from './records/conversation-ids.ts'
import { parseMetadata } from './records/conversation-info.ts'

type Filters = EventFilter & {
  readonly kind__eq?: string | undefined
  readonly source__eq?: string | undefined
}

/** Stored events, also without a sandbox. Conversations of others are empty (wire 1.4). */
export function eventHandlers(deps: OwnedReaderDeps) {
  const { log } = deps.storage

  /** The result of `read`, or `fallback` for a conversation that is foreign, empty or just deleted. */
  const readOwned = ownedReader(deps)

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
