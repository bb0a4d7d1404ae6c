import type { Handlers } from '@slipway/http'
import { type agentRoutes, invalid, Problem } from '@slipway/protocol'
import { listBytes, pageBytes, type Storage } from '@slipway/storage'
import { findRecord } from '../../conversations/conversation-info.ts'
import type { Agents } from '../../conversations/registry.ts'
import { send } from '../../conversations/send-message.ts'
import { Bell, sentEvents, withBeats } from '../../streams/event-frames.ts'
import { SentHints } from '../../streams/sse-updates.ts'

type Routes = Pick<
  typeof agentRoutes,
  | 'searchEvents'
  | 'countEvents'
  | 'getEvent'
  | 'getEvents'
  | 'sendMessage'
  | 'respondToConfirmation'
  | 'streamEvents'
>

export function eventHandlers(options: {
  readonly storage: Storage
  readonly agents: Agents
  readonly touch: () => void
  readonly heartbeatMs: number
}): Handlers<Routes> {
  const { storage, agents, touch, heartbeatMs } = options
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
    async countEvents({ params, query }) {
      return { json: await log.count(params.conversation_id, query) }
    },
    async getEvent({ params }) {
      const [event] = await log.get(params.conversation_id, [params.event_id])
      if (event === undefined) throw new Problem('not_found', `Event not found: ${params.event_id}`)
      return { bytes: event.bytes }
    },
    async getEvents({ params, query, body }) {
      const ids = [...(body ?? []), ...(query.ids ?? []), ...(query.event_ids ?? [])]
      if (ids.length === 0) throw invalid(['query', 'ids'], 'Field required', 'missing')
      return { bytes: listBytes(await log.get(params.conversation_id, ids)) }
    },
    async sendMessage({ params, body, header }) {
      touch()
      await send({ storage, agents }, params.conversation_id, {
        message: body,
        key: header('idempotency-key'),
      })
      return { json: { success: true } }
    },
    async respondToConfirmation({ params, body }) {
      touch()
      const record = await findRecord(storage.conversations, params.conversation_id)
      await (await agents.find(record))?.respond(body)
      return { json: { success: true } }
    },
    async streamEvents({ params, query, header, signal }) {
      const after = cursor(query.after, header('last-event-id'))
      const record = await findRecord(storage.conversations, params.conversation_id)
      if (after.position > record.head) {
        throw invalid(after.loc, `The log ends at position ${record.head}`, 'less_than_equal')
      }
      const isDone = async (position: number) =>
        query.until === 'idle' && (await isAtRest(storage, record.id, position))
      const speaker = query.hints ? agents.hints(record.id) : undefined
      return {
        contentType: 'text/event-stream',
        headers: { 'cache-control': 'no-cache', 'x-accel-buffering': 'no' },
        chunks: follow(storage, record.id, { after: after.position, heartbeatMs, isDone, speaker, signal }),
      }
    },
  }
}

async function* follow(
  storage: Storage,
  id: string,
  options: {
    readonly after: number
    readonly heartbeatMs: number
    readonly isDone: (position: number) => Promise<boolean>
    /** Whose hints are sent too. */
    readonly speaker: ReturnType<Agents['hints']> | undefined
    readonly signal: AbortSignal
  },
): AsyncGenerator<Buffer> {
  const { heartbeatMs, isDone, speaker, signal } = options
  let position = options.after
  const bell = new Bell()
  using hints = new SentHints(
    () => bell.ring(),
    () => Date.now() * 1000,
  )
  if (speaker !== undefined) hints.listen(speaker)
  yield Buffer.from(': open\n\n')
  if (await isDone(position)) return
  const tail = (stop: AbortSignal) => storage.log.tail(id, position, stop)
  for await (const given of withBeats(tail, { ms: heartbeatMs, bell, signal })) {
    if (given === 'silence') yield Buffer.from(': beat\n\n')
    else if (given !== 'bell') {
      // The pieces of an answer that is in this batch go before it.
      yield* hints.taken(position)
      position = given.at(-1)?.position ?? position
      yield sentEvents(given)
    }
    yield* hints.taken(position)
    if (given !== 'bell' && (await isDone(position))) return
  }
}

/** Where to go on: a browser's `Last-Event-ID` is newer than the address it connected to. */
function cursor(after: number | undefined, lastEventId: string | undefined) {
  if (lastEventId === undefined || lastEventId === '')
    return { position: after ?? 0, loc: ['query', 'after'] }
  const loc = ['header', 'last-event-id']
  if (!/^\d{1,15}$/.test(lastEventId)) throw invalid(loc, 'Input should be a position', 'int_parsing')
  return { position: Number(lastEventId), loc }
}

/** Everything has been read and nothing is running that could add more by itself. */
async function isAtRest(storage: Storage, id: string, position: number): Promise<boolean> {
  const [record] = await storage.conversations.get([id])
  return record === undefined || (record.head <= position && record.status !== 'running')
}
