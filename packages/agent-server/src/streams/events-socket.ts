import { type Frame, frame, type Socket, type SocketRequest, type SocketRoute } from '@slipway/http'
import { conversationId, eventsSocketQuery, invalid, Problem, sendMessageRequest } from '@slipway/protocol'
import type { ConversationRecord, PagedEvent, Storage } from '@slipway/storage'
import type { Conversations } from '../conversations/conversation-info.ts'
import type { Agents } from '../conversations/registry.ts'
import { send } from '../conversations/send-message.ts'
import { wireOf } from '../conversations/stored-request.ts'
import { plainFrame, plainFrames, positionedFrames } from './event-frames.ts'
import { hintEvent, stateUpdate, WaitingHints } from './transient-buffer.ts'

/** Codes of ours: the caller's position lies beyond the end of the log; the conversation is not there. */
const beyondTheEnd = 4416
const notFound = 4004

interface Parts {
  readonly storage: Storage
  readonly agents: Agents
  readonly conversations: Conversations
  readonly touch: () => void
  readonly now: () => number
}

/**
 * `/sockets/events/{conversation_id}`: a state snapshot, then what was asked to be sent again, then each event as it
 * becomes durable, each once and in order. With `?after=<position>` frames are `{position, event}` from there on and
 * there is no snapshot. Text frames of the client are user messages, and each is run.
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
  const snapshot = async () => {
    const [now = record] = await parts.storage.conversations.get([asked.id])
    const state = await parts.conversations.state(now, await parts.agents.peek(asked.id))
    await socket.send([plainFrame(stateUpdate('full_state', state, parts.now()))])
    return now.status
  }
  const greeting = isResumable ? undefined : snapshot()
  socket.onMessage(async (text) => {
    // Clients take the first snapshot for the sign that they are heard; an answer must not come before it.
    await greeting
    const answer = await take(parts, record, text)
    if (answer !== undefined) await socket.send([isResumable ? hint(answer) : plainFrame(answer)])
  })
  const told = await greeting
  const sent = asked.after ?? (resends(asked) === 'all' ? 0 : record.head)
  const hints = new SocketHints(parts, socket, { isResumable, snapshot, sent })
  await hints.listen(record, told)
  try {
    for await (const batch of wanted(parts.storage, asked, record.head, socket.signal)) {
      await socket.send(toFrames(batch))
      if (socket.signal.aborted) return
      await hints.sentTo(batch.at(-1)?.position ?? 0)
    }
  } finally {
    hints.end()
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
  const mode = resends(asked)
  if (mode === 'all') return storage.log.tail(asked.id, 0, signal)
  const live = storage.log.tail(asked.id, head, signal)
  const since = asked.after_timestamp
  return mode === undefined || since === undefined
    ? live
    : after(between(storage, asked.id, since, head), live)
}

function resends(asked: Asked): 'all' | 'since' | undefined {
  return asked.resend_mode ?? (asked.resend_all ? 'all' : undefined)
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

/** Takes a frame of the client, a message that is run; answers an error event (a hint, not stored) when it cannot be taken. */
async function take(parts: Parts, record: ConversationRecord, text: string): Promise<object | undefined> {
  try {
    const message = sendMessageRequest.safeParse(json(text))
    if (!message.success)
      throw invalid(['frame'], 'The frame is not a message: {"role":"user","content":[...]}')
    parts.touch()
    await send(parts, record.id, { message: { ...message.data, run: true } })
    return undefined
  } catch (error) {
    if (!(error instanceof Problem)) throw error
    const code = error.code === 'invalid' ? 'ValidationError' : error.code
    const kind = wireOf(record) === 'current' ? 'ServerErrorEvent' : 'ConversationErrorEvent'
    return hintEvent({ code, detail: error.message, kind }, parts.now())
  }
}

function json(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw invalid(['frame'], 'The frame is not valid JSON', 'json_invalid')
  }
}

function hint(event: object): Frame {
  return frame(Buffer.from(JSON.stringify({ hint: event })))
}

/**
 * What one socket is told besides the log: pieces of answers, what was used, and after a run has ended the whole state, behind
 * the events that led to it.
 */
class SocketHints {
  readonly #parts: Parts
  readonly #socket: Socket
  readonly #form: { readonly isResumable: boolean; snapshot(): Promise<unknown> }
  #end: (() => void) | undefined
  #isSending = false
  #sent: number
  readonly #waiting: WaitingHints
  /** A snapshot is due when the socket has been sent everything up to here. */
  #due: number | undefined

  constructor(
    parts: Parts,
    socket: Socket,
    form: {
      readonly isResumable: boolean
      snapshot(): Promise<unknown>
      /** What the socket has already, or does not ask for. */
      readonly sent: number
    },
  ) {
    this.#parts = parts
    this.#socket = socket
    this.#form = form
    this.#sent = form.sent
    this.#waiting = new WaitingHints(parts.now)
  }

  /** `told`: the status that the socket knows. */
  async listen(record: ConversationRecord, told: string | undefined): Promise<void> {
    this.#end = this.#parts.agents.hints(record.id).listen((given, position) => {
      if (given.kind === 'rest') this.#rest(position)
      else if (given.kind === 'stats' || this.#form.isResumable || given.isAsked)
        this.#waiting.add(given, position)
      this.#give()
    })
    if (told !== 'running') return
    // The run may have ended before anybody listened.
    const [now] = await this.#parts.storage.conversations.get([record.id])
    if (now !== undefined && now.status !== 'running') this.#rest(now.head)
  }

  async sentTo(position: number): Promise<void> {
    this.#sent = Math.max(this.#sent, position)
    this.#give()
    if (this.#due === undefined || this.#sent < this.#due) return
    this.#due = undefined
    await this.#form.snapshot()
  }

  end(): void {
    this.#end?.()
  }

  #rest(position: number): void {
    if (this.#form.isResumable) return
    this.#due = position
    void this.sentTo(this.#sent)
  }

  /** Sends what waits, one thing at a time. */
  #give(): void {
    const event = this.#isSending ? undefined : this.#waiting.next(this.#sent)
    if (event === undefined) return
    this.#isSending = true
    const ready = this.#form.isResumable ? hint(event) : plainFrame(event)
    void this.#socket.send([ready]).then(() => {
      this.#isSending = false
      this.#give()
    })
  }
}
