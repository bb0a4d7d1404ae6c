import type { Frame, Socket, SocketRequest, SocketRoute } from '@slipway/http'
import { conversationId, sessionSocketQuery } from '@slipway/protocol'
import type { Timer } from '@slipway/shared/time'
import type { ConversationRecord, StoredEvent } from '@slipway/storage'
import { durableFrames, jsonFrame } from './event-frames.ts'
import { conversationNotFoundCode, type EventsSocketOptions } from './events-socket.ts'
import { receiveMessage } from './receive-message.ts'
import { SessionUpdates } from './session-updates.ts'
import { shrinkEvent } from './shrink-event.ts'
import { stateUpdateEvent } from './transient-buffer.ts'

/** More bytes than this that wait for a reader who takes none close its socket. */
const maxWaitingBytes = 16 * 1024 * 1024
/** A reader that takes something within this time is not stalled. */
const stalledMs = 1_000
/** A snapshot is shrunk to this. */
const maxSnapshotBytes = 1024 * 1024

/**
 * `/sockets/session/{conversation_id}`: `sync`, the history after `after_seq`, a state snapshot, then each
 * new event once and in order, with the progress of streamed replies between them. A client text frame is a
 * user message that is run.
 */
export function sessionSocket(options: EventsSocketOptions): SocketRoute {
  return {
    path: '/sockets/session/{conversation_id}',
    accepts: (request) => parseRequest(request) !== undefined,
    async serve(socket, request) {
      const parsed = parseRequest(request)
      if (parsed !== undefined) await serveSocket(options, socket, parsed)
    },
  }
}

function parseRequest(request: SocketRequest) {
  const id = conversationId.safeParse(request.params.conversation_id)
  const query = sessionSocketQuery.safeParse(request.query)
  return id.success && query.success ? { id: id.data, after_seq: query.data.after_seq } : undefined
}

async function serveSocket(
  options: EventsSocketOptions,
  socket: Socket,
  { id, after_seq }: { readonly id: string; readonly after_seq: number | undefined },
): Promise<void> {
  const [record] = await options.storage.conversations.get([id])
  if (record === undefined) return socket.close(conversationNotFoundCode, 'Conversation not found')
  const { head } = record
  const session = new Session(options, socket, record)
  await socket.send([
    jsonFrame({
      type: 'sync',
      ...(after_seq === undefined ? {} : { from_seq: after_seq }),
      ...(head === 0 ? {} : { through_seq: head - 1 }),
    }),
  ])
  const ready =
    after_seq === undefined ? session.begin() : session.replay(after_seq).then(() => session.begin())
  socket.onMessage(async (text) => {
    // Clients read the snapshot as the sign that the server listens.
    await ready
    const error = await receiveMessage(options, id, text)
    if (error !== undefined) await socket.send([jsonFrame({ type: 'error', ...error })])
  })
  try {
    await ready
    await session.follow()
  } finally {
    session.close()
  }
  // A follower's events end on their own only when the conversation is deleted.
  socket.close(conversationNotFoundCode, 'Conversation not found')
}

/** What one socket has been sent of a conversation, and what is due. */
class Session {
  readonly #options: EventsSocketOptions
  readonly #socket: Socket
  readonly #record: ConversationRecord
  readonly #updates: SessionUpdates
  #unsubscribe: (() => void) | undefined
  /** Position up to which the socket has the events, or does not request them. */
  #sentPosition: number
  /** Something is being sent; updates wait. */
  #isSending = false
  /** A snapshot is due when the socket has been sent everything up to here. */
  #snapshotDueAt: number | undefined
  /** Bytes of events behind the head at the start. */
  #publishedBytes = 0
  #sentBytes = 0
  #lastProgress = 0
  #stallTimer: Timer | undefined

  constructor(options: EventsSocketOptions, socket: Socket, record: ConversationRecord) {
    this.#options = options
    this.#socket = socket
    this.#record = record
    this.#sentPosition = record.head
    this.#updates = new SessionUpdates(() => options.clock.now() * 1000)
  }

  /** Sends the events behind a place in the log, up to the head at the start. */
  async replay(afterSeq: number): Promise<void> {
    const { id, head } = this.#record
    const start = Math.max(afterSeq, -1) + 1
    const { signal } = this.#socket
    if (start >= head) return
    const end = new AbortController()
    try {
      const tail = this.#options.storage.log.tail(id, start, AbortSignal.any([signal, end.signal]))
      for await (const batch of tail) {
        const isLast = (batch.at(-1)?.position ?? 0) >= head
        await this.#sendDurable(isLast ? batch.filter(({ position }) => position <= head) : batch)
        if (isLast || signal.aborted) return
      }
    } finally {
      end.abort()
    }
  }

  /** Sends the first snapshot. From then on updates are sent. */
  async begin(): Promise<void> {
    const { id } = this.#record
    const status = await this.#sendSnapshot()
    this.#unsubscribe = this.#options.registry.transientUpdates(id).subscribe((update, position) => {
      if (update.kind === 'idle') this.#snapshotDueAt = position
      else this.#updates.add(update, position)
      this.#pump()
    })
    if (this.#socket.signal.aborted) this.#unsubscribe()
    if (status !== 'running') return
    // The run may have ended before the subscription.
    const [current] = await this.#options.storage.conversations.get([id])
    if (current !== undefined && current.status !== 'running') this.#snapshotDueAt = current.head
    this.#pump()
  }

  /** Sends each new event; resolves when the conversation is deleted or the socket closes. */
  async follow(): Promise<void> {
    const { id, head } = this.#record
    const { signal } = this.#socket
    const options = { after: head, head, signal }
    const count = (batch: readonly StoredEvent[]) => this.#countPublished(batch)
    this.#options.live.follow(id, options, count).catch(() => undefined)
    await this.#options.live.follow(id, options, (batch) => this.#deliver(batch))
  }

  close(): void {
    this.#unsubscribe?.()
    this.#stallTimer?.cancel()
  }

  #deliver(batch: readonly StoredEvent[]): Promise<void> | undefined {
    this.#isSending = true
    const sending = this.#sendDurable(batch)
    const finish = (): undefined => {
      this.#isSending = false
      this.#lastProgress = this.#options.clock.monotonic()
      this.#sentBytes += totalBytes(batch)
      this.#pump()
    }
    return sending === undefined ? finish() : sending.then(finish)
  }

  /** Sends events, with the updates that belong before each. A too large one closes the socket. */
  #sendDurable(batch: readonly StoredEvent[]): Promise<void> | undefined {
    const frames: Frame[] = []
    const durable = durableFrames(batch)
    for (const [index, event] of batch.entries()) {
      frames.push(...this.#updates.take(event.position - 1).map(jsonFrame))
      const frame = durable[index]
      if (frame === undefined) {
        const close = (): undefined => void this.#socket.close(1013, 'frame_too_large')
        const sending = this.#socket.send(frames)
        return sending === undefined ? close() : sending.then(close)
      }
      this.#updates.retire(event)
      frames.push(frame)
      this.#sentPosition = Math.max(this.#sentPosition, event.position)
    }
    return this.#socket.send(frames)
  }

  /** Sends what is due, one step at a time. */
  #pump(): void {
    if (this.#isSending || this.#socket.signal.aborted) return
    const frames = this.#updates.take(this.#sentPosition).map(jsonFrame)
    const sending = (frames.length > 0 ? this.#socket.send(frames) : undefined) ?? this.#sendDueSnapshot()
    if (sending === undefined) return
    this.#isSending = true
    void sending.then(() => {
      this.#isSending = false
      this.#pump()
    })
  }

  #sendDueSnapshot(): Promise<unknown> | undefined {
    if (this.#snapshotDueAt === undefined || this.#snapshotDueAt > this.#sentPosition) return undefined
    this.#snapshotDueAt = undefined
    return this.#sendSnapshot()
  }

  /** Returns the status that it shows. */
  async #sendSnapshot(): Promise<string> {
    const { storage, infoReader, registry, clock } = this.#options
    const [current = this.#record] = await storage.conversations.get([this.#record.id])
    const state = await infoReader.readState(current, await registry.peek(current.id))
    const event = stateUpdateEvent('full_state', state, clock.now() * 1000)
    const bytes = Buffer.from(JSON.stringify(event))
    const isSmall = bytes.length < maxSnapshotBytes
    const sent = isSmall ? event : JSON.parse(shrinkEvent(bytes, maxSnapshotBytes).toString())
    await this.#socket.send([jsonFrame({ type: 'transient', event: sent })])
    return current.status
  }

  #countPublished(batch: readonly StoredEvent[]): undefined {
    // Nothing waited, so the reader has not stalled until now.
    if (this.#publishedBytes <= this.#sentBytes) this.#lastProgress = this.#options.clock.monotonic()
    this.#publishedBytes += totalBytes(batch)
    this.#closeIfStalled()
  }

  #closeIfStalled(): void {
    if (this.#publishedBytes - this.#sentBytes <= maxWaitingBytes || this.#stallTimer !== undefined) return
    const { clock } = this.#options
    if (clock.monotonic() - this.#lastProgress > stalledMs) this.#socket.close(1013, 'slow_consumer')
    else {
      this.#stallTimer = clock.schedule(stalledMs, () => {
        this.#stallTimer = undefined
        this.#closeIfStalled()
      })
    }
  }
}

function totalBytes(batch: readonly StoredEvent[]): number {
  return batch.reduce((total, { bytes }) => total + bytes.length, 0)
}
