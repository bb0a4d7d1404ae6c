import type { Handlers, Reply } from '@slipway/http'
import { type EventFilter, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import {
  type AppConversationRow,
  type ConversationRecord,
  type EventQuery,
  eventListBytes,
  exportEvents,
  gzipStream,
  pageBytes,
  type Scope,
  type Storage,
} from '@slipway/storage'
import { getCaller } from '../auth/authenticator.ts'
import type { Conversations } from '../conversations/conversations.ts'
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

const ndjsonType = 'application/x-ndjson'
const emptyPage = { items: [], next_page_id: null }

/** What came home, whatever became of its sandbox. What is not the caller's is empty (wire 1.4). */
export function eventHandlers(deps: {
  readonly conversations: Pick<Conversations, 'findOwned'>
  readonly storage: Pick<Storage, 'log' | 'conversations'>
}) {
  const { storage, conversations } = deps
  const { log } = storage

  /** Undefined when there is none of the caller's, or nothing of it has come home. */
  async function findConversation(
    scope: Scope,
    id: string,
  ): Promise<{ row: AppConversationRow; record: ConversationRecord } | undefined> {
    const [row] = await conversations.findOwned(scope, [id])
    const [record] = row === undefined ? [] : await storage.conversations.get([id])
    return row === undefined || record === undefined ? undefined : { row, record }
  }

  async function search(request: EventsRequest & { readonly query: EventQuery & Filters }): Promise<Reply> {
    const { params, query } = request
    if ((await findConversation(getCaller(request), params.conversation_id)) === undefined)
      return { json: emptyPage }
    const page = await unlessDeleted(
      () => log.search(params.conversation_id, { ...query, ...toEventFilter(query) }),
      undefined,
    )
    if (page === undefined) return { json: emptyPage }
    const { bytes, etag } = pageBytes(page)
    if (etag === undefined) return { bytes }
    const headers = { etag, 'cache-control': 'no-cache' }
    return request.header('if-none-match') === etag
      ? { status: 304, bytes: Buffer.alloc(0), headers }
      : { bytes, headers }
  }

  async function count(request: EventsRequest & { readonly query: Filters }): Promise<Reply> {
    const { params, query } = request
    if ((await findConversation(getCaller(request), params.conversation_id)) === undefined) return { json: 0 }
    return { json: await unlessDeleted(() => log.count(params.conversation_id, toEventFilter(query)), 0) }
  }

  return {
    searchHomeEvents: search,
    searchHomeEventsPlural: search,
    countHomeEvents: count,
    countHomeEventsPlural: count,
    async getHomeEvents(request): Promise<Reply> {
      const { params, query } = request
      const isThere = (await findConversation(getCaller(request), params.conversation_id)) !== undefined
      const none = query.id.map(() => undefined)
      const events = isThere
        ? await unlessDeleted(() => log.get(params.conversation_id, query.id), none)
        : none
      return { bytes: eventListBytes(events) }
    },
    async exportHomeEvents(request): Promise<Reply> {
      const { params, query } = request
      const { conversation_id: id } = params
      const there = await findConversation(getCaller(request), id)
      const name = `conversation-${id.replaceAll('-', '')}.jsonl`
      const chunks =
        there === undefined ? emptyStream() : exportEvents(log, toExportRecord(there), { meta: query.meta })
      const disposition = (file: string) => ({ 'content-disposition': `attachment; filename="${file}"` })
      return query.gzip
        ? { contentType: 'application/gzip', headers: disposition(`${name}.gz`), chunks: gzipStream(chunks) }
        : { contentType: ndjsonType, headers: disposition(name), chunks }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

/** The filters under either of their names; the long ones go first. */
function toEventFilter(query: Filters): EventFilter {
  const { kind__eq, source__eq, kind, source, body, timestamp__gte, timestamp__lt } = query
  return { kind: kind__eq ?? kind, source: source__eq ?? source, body, timestamp__gte, timestamp__lt }
}

/** Title and tags are kept in the row. */
function toExportRecord(there: {
  readonly row: AppConversationRow
  readonly record: ConversationRecord
}): ConversationRecord {
  return { ...there.record, title: there.row.title, tags: parseMetadata(there.row).tags ?? {} }
}

async function* emptyStream(): AsyncGenerator<Buffer> {}

/** A conversation that is deleted between two steps is as if it had been deleted before. */
async function unlessDeleted<T>(read: () => Promise<T>, fallback: T): Promise<T> {
  try {
    return await read()
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found') return fallback
    throw error
  }
}
