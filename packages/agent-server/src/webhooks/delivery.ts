import { type LogFunction, Problem } from '@slipway/protocol'
import {
  type ConversationRecord,
  type EventLog,
  eventListBytes,
  type PendingDelivery,
  type Storage,
  type StoredEvent,
} from '@slipway/storage'
import { type PostOutcome, postJson } from './post.ts'

/** What one request may carry; an event that is larger goes alone. */
const maxBytes = 5 * 1024 * 1024
/** A conversation that is far behind lets others come in after so many requests. */
const maxRequests = 16
/** So many conversations' last sent states are remembered; of others the state is sent once more. */
const maxStates = 5_000
const maxCursorMoves = 2

type FailedOutcome = Extract<PostOutcome, { kind: 'refused' | 'unreachable' }>

const conflictOutcome: FailedOutcome = {
  kind: 'refused',
  status: 409,
  isGone: false,
  retryAfterMs: undefined,
}

/** What became of a turn. There may be more to tell by now. */
export interface DeliveryResult {
  /** Something was taken. */
  readonly wasAccepted: boolean
  /** What the receiver said, or that it did not, when it did not take all. */
  readonly failure: FailedOutcome | undefined
}

export interface WebhookDeliveryOptions {
  /** By what its cursors are found. */
  readonly receiver: string
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  /** Most events of a request. */
  readonly maxEvents: number
  readonly timeoutMs: number
  readonly storage: Pick<Storage, 'log' | 'conversations' | 'deliveries'>
  /** ConversationInfo as the REST interface answers it. */
  readonly readInfo: (record: ConversationRecord) => Promise<unknown>
  readonly fetch: typeof fetch
  readonly log: LogFunction
}

/** Where a conversation's receiver is, as a turn goes on. */
interface DeliveryTurn {
  readonly record: ConversationRecord
  readonly signal: AbortSignal
  /** `updated_at` of the record that the receiver has. */
  reportedAt: number | null
  position: number
  maxEvents: number
  /** How often the receiver said that it is elsewhere. */
  cursorMoves: number
  wasAccepted: boolean
}

/** Brings one receiver further, a conversation at a time. The caller sees to it that no conversation has two turns at once. */
export class WebhookDelivery {
  readonly #options: WebhookDeliveryOptions
  /** What of a conversation's record was told last. */
  readonly #sentStates = new Map<string, string>()

  constructor(options: WebhookDeliveryOptions) {
    this.#options = options
  }

  /** Rejects only for our own mistakes and the storage's. */
  async deliver(pending: PendingDelivery, signal: AbortSignal): Promise<DeliveryResult> {
    if (pending.isRemoved) return await this.#sendRemoval(pending.conversation, signal)
    const record = await this.#findRecord(pending.conversation)
    // Removed just now: the next look at what is behind says so.
    if (record === undefined) return { wasAccepted: false, failure: undefined }
    const { position, updated_at: reportedAt } = pending
    const { maxEvents } = this.#options
    const turn: DeliveryTurn = {
      record,
      signal,
      reportedAt,
      position,
      maxEvents,
      cursorMoves: 0,
      wasAccepted: false,
    }
    // First of all the receiver must know what the events belong to; later it has the events before it hears of their result.
    const isNew = reportedAt === null && position === 0
    const failure =
      (isNew ? await this.#sendState(turn) : undefined) ??
      (await this.#sendEvents(turn)) ??
      (turn.position >= record.head ? await this.#sendState(turn) : undefined)
    return { wasAccepted: turn.wasAccepted, failure }
  }

  async #sendRemoval(id: string, signal: AbortSignal): Promise<DeliveryResult> {
    const failure = await this.#postJson({ id, execution_status: 'deleting' }, signal)
    // One that has forgotten it already needs not be told.
    const isDelivered = failure === undefined || (failure.kind === 'refused' && failure.status === 410)
    if (!isDelivered) return { wasAccepted: false, failure }
    this.#sentStates.delete(id)
    await this.#options.storage.deliveries.forget(this.#options.receiver, id)
    return { wasAccepted: true, failure: undefined }
  }

  /** ConversationInfo, when something in it that matters to others has changed since it was told last. */
  async #sendState(turn: DeliveryTurn): Promise<FailedOutcome | undefined> {
    const { record, signal } = turn
    if (turn.reportedAt === record.updated_at) return undefined
    const state = JSON.stringify([record.created_at, record.title, record.status, record.tags])
    if (turn.reportedAt === null || this.#sentStates.get(record.id) !== state) {
      const failure = await this.#postJson(await this.#options.readInfo(record), signal)
      if (failure !== undefined) return failure
      turn.wasAccepted = true
      this.#rememberState(record.id, state)
    }
    turn.reportedAt = record.updated_at
    await this.#advance(turn)
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
      if (outcome.kind === 'taken') {
        turn.position = last.position
        turn.wasAccepted = true
        await this.#advance(turn)
      } else if (outcome.kind === 'refused' && outcome.status === 413 && events.length > 1) {
        turn.maxEvents = Math.floor(events.length / 2)
      } else if (outcome.kind === 'elsewhere') {
        // One that sends us to and fro is asked again later.
        if (outcome.head === turn.position || ++turn.cursorMoves > maxCursorMoves) return conflictOutcome
        await this.#moveCursor(turn, outcome.head)
      } else {
        return outcome
      }
    }
    return undefined
  }

  /** The receiver has less than we thought (it lost some), or more (its answer was lost). */
  async #moveCursor(turn: DeliveryTurn, head: number): Promise<void> {
    const { log } = this.#options
    const conversation = turn.record.id
    if (head > turn.record.head) {
      const [current = turn.record] = await this.#options.storage.conversations.get([conversation])
      if (head > current.head)
        log('warn', 'a webhook receiver has more of a conversation than its log', { conversation, head })
    }
    turn.position = Math.min(head, turn.record.head)
    await this.#advance(turn)
  }

  async #readBatch({ record, position, maxEvents }: DeliveryTurn): Promise<StoredEvent[]> {
    const limit = Math.min(maxEvents, record.head - position)
    const events = await readIfExists(this.#options.storage.log, record.id, position, limit)
    let sizeBytes = 2
    const overflowIndex = events.findIndex(({ bytes }) => {
      sizeBytes += bytes.length + 1
      return sizeBytes > maxBytes
    })
    return overflowIndex < 0 ? events : events.slice(0, Math.max(1, overflowIndex))
  }

  async #postEvents(
    { record, position, signal }: DeliveryTurn,
    events: readonly StoredEvent[],
  ): Promise<PostOutcome> {
    const path = `events/${record.id.replaceAll('-', '')}`
    return await this.#post(path, eventListBytes(events), signal, { 'x-slipway-after': String(position) })
  }

  async #postJson(value: unknown, signal: AbortSignal): Promise<FailedOutcome | undefined> {
    const outcome = await this.#post('conversations', Buffer.from(JSON.stringify(value)), signal)
    if (outcome.kind === 'taken') return undefined
    return outcome.kind === 'elsewhere' ? conflictOutcome : outcome
  }

  async #post(
    path: string,
    bytes: Buffer,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<PostOutcome> {
    const { fetch, baseUrl, timeoutMs } = this.#options
    const request = {
      headers: { 'content-type': 'application/json', ...this.#options.headers, ...headers },
      body: new Uint8Array(bytes),
      timeoutMs,
    }
    return await postJson(fetch, `${baseUrl}/${path}`, request, signal)
  }

  /** Durable when it resolves. */
  async #advance({ record, position, reportedAt }: DeliveryTurn): Promise<void> {
    const { receiver, storage } = this.#options
    await storage.deliveries.advance(receiver, record.id, { position, updated_at: reportedAt })
  }

  async #findRecord(id: string): Promise<ConversationRecord | undefined> {
    const [record] = await this.#options.storage.conversations.get([id])
    return record
  }

  #rememberState(id: string, state: string): void {
    this.#sentStates.delete(id)
    this.#sentStates.set(id, state)
    if (this.#sentStates.size <= maxStates) return
    for (const oldest of this.#sentStates.keys()) return void this.#sentStates.delete(oldest)
  }
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
