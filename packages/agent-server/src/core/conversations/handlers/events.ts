import type { Handlers } from '@slipway/http'
import {
  type agentServerRoutes,
  type Cursor,
  invalidInput,
  Problem,
  parseCursor,
  type Resync,
} from '@slipway/protocol'
import { Signal } from '@slipway/shared/async'
import type { Clock } from '@slipway/shared/time'
import { checkCursor, eventListBytes, pageBytes, type Storage } from '@slipway/storage'
import { answersQuestions } from '../../peers/no-answer.ts'
import { type SseIds, sseEvents, sseResync, withHeartbeat } from '../../streams/event-frames.ts'
import { SseUpdates } from '../../streams/sse-updates.ts'
import { getConversationRecord } from '../conversation-info.ts'
import { sendMessage } from '../lifecycle/send-message.ts'
import type { ConversationRegistry } from '../registry.ts'

export function eventHandlers(options: {
  readonly storage: Storage
  readonly registry: ConversationRegistry
  readonly heartbeatMs: number
  readonly clock: Clock
}) {
  const { storage, registry, heartbeatMs, clock } = options
  const { log } = storage
  return {
    async searchEvents({ params, query, header }) {
      const { bytes, etag } = pageBytes(await log.search(params.conversation_id, query))
      if (etag === undefined) return { bytes }
      const headers = { etag, 'cache-control': 'no-cache' }
      return header('if-none-match') === etag
        ? { status: 304, bytes: Buffer.alloc(0), headers }
        : { bytes, headers }
    },
    countEvents: async ({ params, query }) => ({ json: await log.count(params.conversation_id, query) }),
    async getEvent({ params }) {
      const [event] = await log.get(params.conversation_id, [params.event_id])
      if (event === undefined) throw new Problem('not_found', `Event not found: ${params.event_id}`)
      return { bytes: event.bytes }
    },
    async getEvents({ params, query, body }) {
      const ids = [...(body ?? []), ...(query.ids ?? []), ...(query.event_ids ?? [])]
      if (ids.length === 0) throw invalidInput(['body'], 'Field required', 'missing')
      return { bytes: eventListBytes(await log.get(params.conversation_id, ids)) }
    },
    async sendMessage(request) {
      const { params, body, header } = request
      await sendMessage({ storage, registry }, params.conversation_id, {
        message: body,
        key: header('idempotency-key'),
        mayAnswer: answersQuestions(request),
      })
      return { json: { success: true } }
    },
    async respondToConfirmation({ params, body }) {
      const record = await getConversationRecord(storage.conversations, params.conversation_id)
      await (await registry.load(record))?.resolveConfirmation(body)
      return { json: { success: true } }
    },
    async streamEvents({ params, query, header, signal }) {
      const { cursor, ids, loc } = readStart(query.after, header('last-event-id'))
      const record = await getConversationRecord(storage.conversations, params.conversation_id)
      const resync = await checkCursor(log, record, cursor)
      if (resync === undefined && cursor.position > record.head) {
        throw invalidInput(loc, `The log ends at position ${record.head}`, 'less_than_equal')
      }
      const isDone = async (position: number) =>
        query.until === 'idle' && (await isIdle(storage, record.id, position))
      return {
        contentType: 'text/event-stream',
        isEndless: true,
        headers: { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
        chunks: streamEvents(storage, record.id, {
          after: resync?.after ?? cursor.position,
          ids,
          resync,
          heartbeatMs,
          clock,
          isDone,
          transientUpdates: registry.transientUpdates(record.id),
          hasHints: query.hints,
          signal,
        }),
      }
    },
  } satisfies Partial<Handlers<typeof agentServerRoutes>>
}

async function* streamEvents(
  storage: Storage,
  id: string,
  options: {
    readonly after: number
    readonly ids: SseIds
    /** Sent first. */
    readonly resync: Resync | undefined
    readonly heartbeatMs: number
    readonly clock: Clock
    readonly isDone: (position: number) => Promise<boolean>
    /** Changes of title, tags and secrets are sent, with `hasHints` all of them. */
    readonly transientUpdates: ReturnType<ConversationRegistry['transientUpdates']>
    readonly hasHints: boolean
    readonly signal: AbortSignal
  },
): AsyncGenerator<Buffer> {
  const { heartbeatMs, clock, ids, isDone, resync, transientUpdates, hasHints, signal } = options
  let position = options.after
  const wakeUp = new Signal()
  using sseUpdates = new SseUpdates(
    () => wakeUp.notify(),
    () => clock.now() * 1000,
  )
  sseUpdates.subscribe(transientUpdates, { all: hasHints })
  yield Buffer.from(': open\n\n')
  if (resync !== undefined) yield sseResync(resync)
  if (await isDone(position)) return
  const tail = (stop: AbortSignal) => storage.log.tail(id, position, stop)
  for await (const item of withHeartbeat(tail, { ms: heartbeatMs, wakeUp, clock, signal })) {
    if (item === 'silence') yield Buffer.from(': beat\n\n')
    else if (item !== 'signal') {
      // Deltas go before the batch with their event.
      yield* sseUpdates.drain(position)
      position = item.at(-1)?.position ?? position
      yield* sseEvents(item, ids)
    }
    yield* sseUpdates.drain(position)
    if (item !== 'signal' && (await isDone(position))) return
  }
}

/**
 * Where a stream begins: `Last-Event-ID` of a browser is newer than the URL. Who passes a bare position as
 * `after` may read the ids as numbers, so they are positions then.
 */
function readStart(
  after: Cursor | undefined,
  lastEventId: string | undefined,
): { readonly cursor: Cursor; readonly ids: SseIds; readonly loc: string[] } {
  if (lastEventId === undefined || lastEventId === '') {
    const ids = after !== undefined && after.digest === undefined ? 'position' : 'cursor'
    return { cursor: after ?? { position: 0, digest: undefined }, ids, loc: ['query', 'after'] }
  }
  const loc = ['header', 'last-event-id']
  const cursor = parseCursor(lastEventId)
  if (cursor === undefined) throw invalidInput(loc, 'Input should be a position', 'int_parsing')
  return { cursor, ids: 'cursor', loc }
}

/** All events are read and nothing runs that could add more. */
async function isIdle(storage: Storage, id: string, position: number): Promise<boolean> {
  const [record] = await storage.conversations.get([id])
  return record === undefined || (record.head <= position && record.status !== 'running')
}
