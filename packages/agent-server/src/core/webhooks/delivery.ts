/**
 * Sends what a webhook receiver lacks of a conversation.
 *
 * Problem: a receiver may be away for days, lose events it has accepted, or not hear that we heard its
 * answer. A server may end between an answer and the note of it. Nothing may be lost, and no queue may grow
 * meanwhile.
 *
 * Idea: the log is the queue. A receiver has a cursor for each conversation in the storage, and a delivery
 * sends what lies above it. Each request says the position and the cursor before its first event; a receiver
 * that has something else answers 409 with its own.
 *
 * Invariants:
 * - The cursor moves after the receiver has accepted the events (`#sendEvents`), and durably (`#advance`):
 *   each event is sent at least once, in order. The caller runs one delivery of a conversation at a time.
 * - A conversation is announced before its first event; later its state comes after the events that it
 *   follows from (`deliver`).
 * - After a 409 the cursor is where the receiver says, if the log has that event. A receiver with another
 *   history gets an announcement with `x-slipway-resync: 0`, then everything (`#moveCursor`).
 * - A receiver that names the same place again, or moves too often, counts as refused (`maxCursorMoves`).
 * - A request has the events that fit its limits, but at least one; a 413 halves their number.
 * - A delivery makes `maxRequests` at most, so that a long log delays no other conversation.
 * - A conversation stays pending until its snapshot was accepted (`#sendSnapshot`), and until its removal
 *   was, or the receiver says that it does not know it (410).
 *
 * If you change this: gaps or endless repetitions at receivers, days after a failure.
 * `webhooks.process.test.ts` has receivers that fail in every way. The other side of sandboxes:
 * `ingest/event-ingest.ts` of the sandbox server. When a delivery is tried again: `backoff.ts`.
 *
 * Decision pages: docs/decisions/0021-cursors.md, docs/decisions/0011-control-plane.md
 */

import { type LogFunction, Problem } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import type { Clock } from '@slipway/shared/time'
import {
  type ConversationRecord,
  checkCursor,
  cursorAt,
  type EventLog,
  eventListBytes,
  type PendingDelivery,
  type Storage,
  type StoredEvent,
} from '@slipway/storage'
import { type PostOutcome, postJson } from './post.ts'

/** Most bytes of a request unless the receiver sets it; a larger event is sent alone. */
const maxBytes = 5 * 1024 * 1024
/** Requests per delivery. */
const maxRequests = 16
/** Last sent states in memory; the state of another conversation is sent once more. */
const maxStates = 5_000
const maxCursorMoves = 2
const maxLastInfos = 100

type FailedOutcome = Extract<PostOutcome, { kind: 'refused' | 'unreachable' }>

const conflictOutcome: FailedOutcome = {
  kind: 'refused',
  status: 409,
  isGone: false,
  retryAfterMs: undefined,
}

export interface DeliveryResult {
  /** The receiver accepted at least one request. */
  readonly wasAccepted: boolean
  /** The failed request, if one failed. */
  readonly failure: FailedOutcome | undefined
}

interface WebhookDeliveryOptions {
  readonly receiver: string
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  /** Most events of a request. */
  readonly maxEvents: number
  readonly maxBytes?: number | undefined
  readonly timeoutMs: number
  readonly clock: Clock
  readonly storage: Pick<Storage, 'log' | 'conversations' | 'deliveries'>
  /** ConversationInfo as the REST interface answers it. */
  readonly readInfo: (record: ConversationRecord) => Promise<unknown>
  /** The event that is a snapshot of the state; undefined for receivers that get none. */
  readonly readSnapshot?: ((record: ConversationRecord) => Promise<object>) | undefined
  readonly fetch: typeof fetch
  readonly log: LogFunction
}

interface DeliveryTurn {
  readonly record: ConversationRecord
  readonly signal: AbortSignal
  /** `updated_at` of the record that the receiver has. */
  reportedAt: number | null
  position: number
  maxEvents: number
  /** How often the receiver answered with another position. */
  cursorMoves: number
  wasAccepted: boolean
}

/** Sends pending events of conversations to one receiver, one delivery of a conversation at a time. */
export class WebhookDelivery {
  readonly #options: WebhookDeliveryOptions
  readonly #sentStates = new LruMap<string, string>({ max: maxStates })
  /** The status of conversations whose snapshot was sent. */
  readonly #sentSnapshots = new LruMap<string, string>({ max: maxStates })
  /** Of conversations that are being removed: what their removal says. */
  readonly #lastInfos = new LruMap<string, object>({ max: maxLastInfos })

  constructor(options: WebhookDeliveryOptions) {
    this.#options = options
  }

  /** Rejects only for our own mistakes and the storage's. */
  async deliver(pending: PendingDelivery, signal: AbortSignal): Promise<DeliveryResult> {
    if (pending.isRemoved) return await this.#sendRemoval(pending.conversation, signal)
    const [record] = await this.#options.storage.conversations.get([pending.conversation])
    // Removed just now: the next check finds the removal.
    if (record === undefined) return { wasAccepted: false, failure: undefined }
    const { position, updated_at: reportedAt } = pending
    const { maxEvents } = this.#options
    const progress = { position, reportedAt, maxEvents, cursorMoves: 0, wasAccepted: false }
    const turn: DeliveryTurn = { record, signal, ...progress }
    const failure =
      (reportedAt === null ? await this.#sendState(turn) : undefined) ??
      (await this.#sendEvents(turn)) ??
      (turn.position >= record.head
        ? ((await this.#sendState(turn)) ?? (await this.#sendSnapshot(turn)))
        : undefined)
    return { wasAccepted: turn.wasAccepted, failure }
  }

  /** How many events each of these conversations has that were not sent. */
  async countUnsentEvents(pending: readonly PendingDelivery[]): Promise<number[]> {
    const ids = pending.map(({ conversation }) => conversation)
    const records = await this.#options.storage.conversations.get(ids)
    return pending.map(({ position }, index) => (records[index]?.head ?? 0) - position)
  }

  /** The removal of the conversation will be announced with these members. */
  noteRemoval(id: string, info: object): void {
    this.#lastInfos.set(id, info)
  }

  /** Posts ConversationInfo though nothing has changed; a failure is not repeated. */
  async announce(record: ConversationRecord, signal: AbortSignal): Promise<void> {
    await this.#postJson(await this.#options.readInfo(record), signal)
  }

  async #sendRemoval(id: string, signal: AbortSignal): Promise<DeliveryResult> {
    const info = { id, ...this.#lastInfos.get(id), execution_status: 'deleting' }
    const failure = await this.#postJson(info, signal)
    // 410: the receiver does not know it any more.
    const isDelivered = failure === undefined || (failure.kind === 'refused' && failure.status === 410)
    if (!isDelivered) return { wasAccepted: false, failure }
    this.#sentStates.delete(id)
    this.#sentSnapshots.delete(id)
    this.#lastInfos.delete(id)
    await this.#options.storage.deliveries.forget(this.#options.receiver, id)
    return { wasAccepted: true, failure: undefined }
  }

  /** Sends ConversationInfo when a member that receivers use has changed since it was last sent. */
  async #sendState(turn: DeliveryTurn): Promise<FailedOutcome | undefined> {
    const { record, signal } = turn
    if (turn.reportedAt === record.updated_at) return undefined
    const state = JSON.stringify([record.created_at, record.title, record.status, record.tags])
    if (turn.reportedAt === null || this.#sentStates.get(record.id) !== state) {
      const isAnnounced = turn.reportedAt === null
      const headers = isAnnounced ? { 'x-slipway-resync': String(turn.position) } : {}
      const failure = await this.#postJson(await this.#options.readInfo(record), signal, headers)
      if (failure !== undefined) return failure
      turn.wasAccepted = true
      this.#sentStates.set(record.id, state)
    }
    turn.reportedAt = record.updated_at
    await this.#advance(turn)
    return undefined
  }

  /** Sends a snapshot the first time in this process, and when the conversation has come to rest. */
  async #sendSnapshot(turn: DeliveryTurn): Promise<FailedOutcome | undefined> {
    const { readSnapshot } = this.#options
    const { record, signal } = turn
    const sentStatus = this.#sentSnapshots.get(record.id)
    const isDue = sentStatus === undefined || (sentStatus !== record.status && record.status !== 'running')
    if (readSnapshot !== undefined && isDue) {
      const event = await readSnapshot(record)
      const outcome = await this.#post(eventsPath(record), Buffer.from(JSON.stringify([event])), signal)
      // A snapshot has no position: a receiver that says one has what it needs.
      if (outcome.kind === 'refused' || outcome.kind === 'unreachable') {
        // So that the conversation is pending until the snapshot is taken.
        turn.reportedAt = record.updated_at - 1
        await this.#advance(turn)
        return outcome
      }
      turn.wasAccepted = true
    }
    this.#sentSnapshots.set(record.id, record.status)
    return undefined
  }

  async #sendEvents(turn: DeliveryTurn): Promise<FailedOutcome | undefined> {
    const { record } = turn
    for (let count = 0; count < maxRequests && turn.position < record.head; count++) {
      const events = await this.#readBatch(turn)
      const last = events.at(-1)
      // Removed in the meantime.
      if (last === undefined) return undefined
      const outcome = await this.#postEvents(turn, events)
      if (outcome.kind === 'accepted') {
        turn.position = last.position
        turn.wasAccepted = true
        await this.#advance(turn)
      } else if (outcome.kind === 'refused' && outcome.status === 413 && events.length > 1) {
        turn.maxEvents = Math.floor(events.length / 2)
      } else if (outcome.kind === 'other-position') {
        if (outcome.head === turn.position || ++turn.cursorMoves > maxCursorMoves) return conflictOutcome
        const failure = await this.#moveCursor(turn, outcome)
        if (failure !== undefined) return failure
      } else {
        return outcome
      }
    }
    return undefined
  }

  /** Moves the cursor to the receiver's position: it lost events, or its last response was lost. */
  async #moveCursor(
    turn: DeliveryTurn,
    { head, cursor }: Extract<PostOutcome, { kind: 'other-position' }>,
  ): Promise<FailedOutcome | undefined> {
    const { log, storage } = this.#options
    const conversation = turn.record.id
    const [current = turn.record] = await storage.conversations.get([conversation])
    const resync = cursor && (await checkCursor(storage.log, current, cursor))
    if (resync === undefined && head <= current.head) {
      turn.position = Math.min(head, turn.record.head)
      await this.#advance(turn)
      return undefined
    }
    log('warn', 'a webhook receiver has another history of a conversation than its log', {
      conversation,
      head,
    })
    turn.position = 0
    turn.reportedAt = null
    await this.#advance(turn)
    return await this.#sendState(turn)
  }

  async #readBatch({ record, position, maxEvents }: DeliveryTurn): Promise<StoredEvent[]> {
    const limit = Math.min(maxEvents, record.head - position)
    const events = await readIfExists(this.#options.storage.log, record.id, position, limit)
    let sizeBytes = 2
    const { maxBytes: limitBytes = maxBytes } = this.#options
    const overflowIndex = events.findIndex(({ bytes }) => {
      sizeBytes += bytes.length + 1
      return sizeBytes > Math.min(limitBytes, maxBytes)
    })
    return overflowIndex < 0 ? events : events.slice(0, Math.max(1, overflowIndex))
  }

  async #postEvents(
    { record, position, signal }: DeliveryTurn,
    events: readonly StoredEvent[],
  ): Promise<PostOutcome> {
    const cursor = await cursorAt(this.#options.storage.log, record.id, position)
    const headers = { 'x-slipway-after': String(position), 'x-slipway-cursor': cursor }
    return await this.#post(eventsPath(record), eventListBytes(events), signal, headers)
  }

  async #postJson(
    value: unknown,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<FailedOutcome | undefined> {
    const outcome = await this.#post('conversations', Buffer.from(JSON.stringify(value)), signal, headers)
    if (outcome.kind === 'accepted') return undefined
    return outcome.kind === 'other-position' ? conflictOutcome : outcome
  }

  async #post(
    path: string,
    bytes: Buffer,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<PostOutcome> {
    const { fetch, baseUrl, timeoutMs, clock } = this.#options
    const request = {
      headers: { 'content-type': 'application/json', ...this.#options.headers, ...headers },
      body: new Uint8Array(bytes),
      timeoutMs,
      clock,
    }
    return await postJson(fetch, `${baseUrl}/${path}`, request, signal)
  }

  /** Durable when it resolves. */
  async #advance({ record, position, reportedAt }: DeliveryTurn): Promise<void> {
    const { receiver, storage } = this.#options
    await storage.deliveries.advance(receiver, record.id, { position, updated_at: reportedAt })
  }
}

function eventsPath({ id }: ConversationRecord): string {
  return `events/${id.replaceAll('-', '')}`
}

/** Nothing of a conversation that is gone. */
async function readIfExists(
  log: EventLog,
  conversation: string,
  after: number,
  limit: number,
): Promise<StoredEvent[]> {
  try {
    return await log.read(conversation, after, limit, maxBytes)
  } catch (error) {
    if (error instanceof Problem && error.code === 'not_found') return []
    throw error
  }
}
