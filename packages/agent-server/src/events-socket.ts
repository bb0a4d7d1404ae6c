import { randomUUID } from 'node:crypto'
import { type Frame, frame, type Socket, type SocketRequest, type SocketRoute } from '@slipway/http'
import {
  conversationId,
  eventsSocketQuery,
  formatInstant,
  invalid,
  Problem,
  sendMessageRequest,
} from '@slipway/protocol'
import type { PagedEvent, Storage } from '@slipway/storage'
import type { Conversations } from './conversations.ts'
import { send } from './messages.ts'
import { plainFrames, positionedFrames } from './stream.ts'

/** Codes of ours: the caller's position lies beyond the end of the log; the conversation is not there. */
const beyondTheEnd = 4416
const notFound = 4004

interface Parts {
  readonly storage: Storage
  readonly conversations: Conversations
  readonly touch: () => void
  readonly now: () => number
}

/**
 * `/sockets/events/{conversation_id}`: a state snapshot, then what was asked to be sent again, then each event as it
 * becomes durable, each once and in order. With `?after=<position>` frames are `{position, event}` from there on and
 * there is no snapshot. Text frames of the client are user messages.
 */
export function eventsSocket(parts: Parts): SocketRoute {
  return {
    path: '/sockets/events/{conversation_id}',
    accepts: (request) => parse(request) !== undefined,
    async serve(socket, request) {
      const asked = parse(request)
      if (asked !== undefined) await serve(parts, socket, asked)
    },
  }
}

type Asked = NonNullable<ReturnType<typeof parse>>

function parse(request: SocketRequest) {
  const id = conversationId.safeParse(request.params.conversation_id)
  const query = eventsSocketQuery.safeParse(request.query)
  return id.success && query.success ? { id: id.data, ...query.data } : undefined
}

async function serve(parts: Parts, socket: Socket, asked: Asked): Promise<void> {
  const [record] = await parts.storage.conversations.get([asked.id])
  if (record === undefined) return socket.close(notFound, 'Conversation not found')
  if (asked.after !== undefined && asked.after > record.head) {
    return socket.close(beyondTheEnd, `The log ends at position ${record.head}`)
  }
  const isResumable = asked.after !== undefined
  const toFrames = isResumable ? positionedFrames : plainFrames
  socket.onMessage(async (text) => {
    const answer = await take(parts, asked.id, text)
    if (answer !== undefined)
      await socket.send([isResumable ? hint(answer) : frame(Buffer.from(JSON.stringify(answer)))])
  })
  if (!isResumable) {
    const state = await parts.conversations.state(record)
    await socket.send([frame(Buffer.from(JSON.stringify(stateUpdate(state, parts.now()))))])
  }
  for await (const batch of wanted(parts.storage, asked, record.head, socket.signal)) {
    await socket.send(toFrames(batch))
    if (socket.signal.aborted) return
  }
  // The tail ends by itself only when the conversation is deleted.
  socket.close(notFound, 'Conversation not found')
}

/** What is to be sent again, up to the end of the log as it was when the socket opened, then all that follows. */
function wanted(
  storage: Storage,
  asked: Asked,
  head: number,
  signal: AbortSignal,
): AsyncIterable<readonly PagedEvent[]> {
  if (asked.after !== undefined) return storage.log.tail(asked.id, asked.after, signal)
  const mode = asked.resend_mode ?? (asked.resend_all ? 'all' : undefined)
  if (mode === 'all') return storage.log.tail(asked.id, 0, signal)
  const live = storage.log.tail(asked.id, head, signal)
  const since = asked.after_timestamp
  return mode === undefined || since === undefined
    ? live
    : after(between(storage, asked.id, since, head), live)
}

async function* after<T>(first: AsyncIterable<T>, then: AsyncIterable<T>): AsyncGenerator<T> {
  yield* first
  yield* then
}

/** Events at or after a moment, in order of time, of those that were there at the start. */
async function* between(
  storage: Storage,
  id: string,
  since: number,
  head: number,
): AsyncGenerator<readonly PagedEvent[]> {
  let page_id: string | undefined
  do {
    const query = { timestamp__gte: since, limit: 100, sort_order: 'TIMESTAMP', page_id } as const
    const page = await storage.log.search(id, query)
    yield page.items.filter((event) => event.position <= head)
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Takes a frame of the client; answers an error event (a hint, not stored) when it cannot be taken. */
async function take(parts: Parts, id: string, text: string): Promise<object | undefined> {
  try {
    const message = sendMessageRequest.safeParse(json(text))
    if (!message.success)
      throw invalid(['frame'], 'The frame is not a message: {"role":"user","content":[...]}')
    parts.touch()
    await send(parts.storage, id, message.data)
    return undefined
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const code = error.code === 'invalid' ? 'ValidationError' : error.code
    return hintEvent({ code, detail: error.message, kind: 'ConversationErrorEvent' }, parts.now())
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(['frame'], 'The frame is not valid JSON', 'json_invalid')
  }
}

function stateUpdate(state: unknown, now: number): object {
  return hintEvent({ key: 'full_state', value: state, kind: 'ConversationStateUpdateEvent' }, now)
}

function hintEvent(members: object, now: number): object {
  return { id: randomUUID(), timestamp: formatInstant(now), source: 'environment', ...members }
}

function hint(event: object): Frame {
  return frame(Buffer.from(JSON.stringify({ hint: event })))
}
