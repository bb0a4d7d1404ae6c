import type { Frame, Socket, SocketRequest, SocketRoute } from '@slipway/http'
import { conversationId, eventsSocketQuery } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import { type ConversationRecord, checkCursor, type PagedEvent, type Storage } from '@slipway/storage'
import type { ConversationInfoReader } from '../conversations/conversation-info.ts'
import { readWireVersion } from '../conversations/stored-request.ts'
import { jsonFrame, plainFrame, plainFrames, positionedFrames } from './event-frames.ts'
import type { LiveEvents } from './live-events.ts'
import { type MessageReceiver, receiveMessage } from './receive-message.ts'
import { stateUpdateEvent, TransientBuffer, transientEvent } from './transient-buffer.ts'

/** Close codes: the requested position lies beyond the end of the log; the conversation does not exist. */
const positionBeyondEndCode = 4416
export const conversationNotFoundCode = 4004

export interface EventsSocketOptions extends MessageReceiver {
  readonly infoReader: ConversationInfoReader
  readonly live: LiveEvents
  readonly clock: Clock
}

/**
 * `/sockets/events/{conversation_id}`: a state snapshot, the requested older events, then each new event
 * once, in order. `?after=<cursor>`: frames are `{position, event, cursor}`, without a snapshot. A client
 * text frame is a user message that is run.
 */
export function eventsSocket(parts: EventsSocketOptions): SocketRoute {
  return {
    path: '/sockets/events/{conversation_id}',
    accepts: (request) => parseRequest(request) !== undefined,
    async serve(socket, request) {
      const parsed = parseRequest(request)
      if (parsed !== undefined) await serveSocket(parts, socket, parsed)
    },
  }
}

type EventsSocketRequest = NonNullable<ReturnType<typeof parseRequest>>

function parseRequest(request: SocketRequest) {
  const id = conversationId.safeParse(request.params.conversation_id)
  const query = eventsSocketQuery.safeParse(request.query)
  return id.success && query.success ? { id: id.data, ...query.data } : undefined
}

async function serveSocket(
  options: EventsSocketOptions,
  socket: Socket,
  request: EventsSocketRequest,
): Promise<void> {
  const [record] = await options.storage.conversations.get([request.id])
  if (record === undefined) return socket.close(conversationNotFoundCode, 'Conversation not found')
  const { after } = request
  const isResumable = after !== undefined
  const resync = isResumable ? await checkCursor(options.storage.log, record, after) : undefined
  if (isResumable && resync === undefined && after.position > record.head) {
    return socket.close(positionBeyondEndCode, `The log ends at position ${record.head}`)
  }
  if (resync !== undefined) await socket.send([jsonFrame({ resync })])
  const startPosition = resync?.after ?? after?.position
  const snapshot = async () => {
    const [current = record] = await options.storage.conversations.get([request.id])
    const state = await options.infoReader.readState(current, await options.registry.peek(request.id))
    await socket.send([plainFrame(stateUpdateEvent('full_state', state, options.clock.now() * 1000))])
    return current.status
  }
  const firstSnapshot = isResumable ? undefined : snapshot()
  socket.onMessage(async (text) => {
    // Clients read the first snapshot as the sign that the server listens; no reply may come before it.
    await firstSnapshot
    const errorEvent = await handleMessage(options, record, text)
    if (errorEvent !== undefined)
      await socket.send([isResumable ? transientFrame(errorEvent) : plainFrame(errorEvent)])
  })
  const reportedStatus = await firstSnapshot
  const sentPosition = startPosition ?? (resendMode(request) === 'all' ? 0 : record.head)
  const updates = new SocketUpdates(options, socket, { isResumable, snapshot, sent: sentPosition })
  await updates.subscribe(record, reportedStatus)
  const deliver = (frames: readonly Frame[], batch: readonly PagedEvent[]) => {
    const sending = socket.send(frames)
    const markSent = () => updates.markSent(batch.at(-1)?.position ?? 0)
    return sending === undefined ? markSent() : sending.then(markSent)
  }
  const { head } = record
  const { signal } = socket
  try {
    for await (const batch of eventsSince(options.storage, request, head)) {
      await deliver(plainFrames(batch), batch)
      if (signal.aborted) return
    }
    await options.live.follow(request.id, { after: sentPosition, head, signal }, (batch) =>
      deliver(isResumable ? positionedFrames(batch) : plainFrames(batch), batch),
    )
  } finally {
    updates.close()
  }
  // A follower's events end on their own only when the conversation is deleted.
  socket.close(conversationNotFoundCode, 'Conversation not found')
}

function resendMode(request: EventsSocketRequest): 'all' | 'since' | undefined {
  return request.resend_mode ?? (request.resend_all ? 'all' : undefined)
}

/**
 * Where they are requested, the events at or after an instant, in order of time, up to the head at the start.
 */
async function* eventsSince(
  storage: Storage,
  request: EventsSocketRequest,
  head: number,
): AsyncGenerator<readonly PagedEvent[]> {
  const since = request.after_timestamp
  if (request.after !== undefined || resendMode(request) !== 'since' || since === undefined) return
  let page_id: string | undefined
  do {
    const query = { timestamp__gte: since, limit: 100, sort_order: 'TIMESTAMP', page_id } as const
    const page = await storage.log.search(request.id, query)
    yield page.items.filter((event) => event.position <= head)
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Sends and runs the message of a client frame; returns an error event when the frame is refused. */
async function handleMessage(
  options: EventsSocketOptions,
  record: ConversationRecord,
  text: string,
): Promise<object | undefined> {
  const error = await receiveMessage(options, record.id, text)
  if (error === undefined) return undefined
  const kind = readWireVersion(record) === 'current' ? 'ServerErrorEvent' : 'ConversationErrorEvent'
  return transientEvent({ ...error, kind }, options.clock.now() * 1000)
}

function transientFrame(event: object): Frame {
  return jsonFrame({ hint: event })
}

interface SocketFormat {
  readonly isResumable: boolean
  snapshot(): Promise<unknown>
  /** Position up to which the socket has the events, or does not request them. */
  readonly sent: number
}

/** Transient updates of one socket and, after a run, the full state, sent after the events that led to it. */
class SocketUpdates {
  readonly #options: EventsSocketOptions
  readonly #socket: Socket
  readonly #format: SocketFormat
  #unsubscribe: (() => void) | undefined
  #isSending = false
  #sentPosition: number
  readonly #buffer: TransientBuffer
  /** A snapshot is due when the socket has been sent everything up to here. */
  #snapshotDueAt: number | undefined

  constructor(options: EventsSocketOptions, socket: Socket, format: SocketFormat) {
    this.#options = options
    this.#socket = socket
    this.#format = format
    this.#sentPosition = format.sent
    this.#buffer = new TransientBuffer(() => options.clock.now() * 1000)
  }

  async subscribe(record: ConversationRecord, knownStatus: string | undefined): Promise<void> {
    this.#unsubscribe = this.#options.registry.transientUpdates(record.id).subscribe((update, position) => {
      if (update.kind === 'reply_aborted') return
      // Existing clients know no such update.
      if (update.kind === 'retry' && !this.#format.isResumable) return
      if (update.kind === 'idle') this.#scheduleSnapshot(position)
      else if (update.kind === 'reset' && !this.#format.isResumable) this.#buffer.dropDelta()
      else if (update.kind === 'reset') this.#buffer.add(update, position)
      else if (
        update.kind === 'stats' ||
        update.kind === 'member' ||
        update.kind === 'retry' ||
        this.#format.isResumable ||
        update.isStreamRequested
      )
        this.#buffer.add(update, position)
      this.#sendNext()
    })
    if (knownStatus !== 'running') return
    // The run may have ended before the subscription.
    const [current] = await this.#options.storage.conversations.get([record.id])
    if (current !== undefined && current.status !== 'running') this.#scheduleSnapshot(current.head)
  }

  markSent(position: number): Promise<unknown> | undefined {
    this.#sentPosition = Math.max(this.#sentPosition, position)
    this.#sendNext()
    if (this.#snapshotDueAt === undefined || this.#sentPosition < this.#snapshotDueAt) return undefined
    this.#snapshotDueAt = undefined
    return this.#format.snapshot()
  }

  close(): void {
    this.#unsubscribe?.()
  }

  #scheduleSnapshot(position: number): void {
    if (this.#format.isResumable) return
    this.#snapshotDueAt = position
    void this.markSent(this.#sentPosition)
  }

  /** Sends waiting updates, one at a time. */
  #sendNext(): void {
    const event = this.#isSending ? undefined : this.#buffer.takeNext(this.#sentPosition)
    if (event === undefined) return
    this.#isSending = true
    const nextFrame = this.#format.isResumable ? transientFrame(event) : plainFrame(event)
    void this.#finishSending(this.#socket.send([nextFrame]))
  }

  async #finishSending(sending: Promise<void> | undefined): Promise<void> {
    await sending
    this.#isSending = false
    this.#sendNext()
  }
}
