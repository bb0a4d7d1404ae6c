import { type Log, Problem } from '@slipway/protocol'
import {
  type Behind,
  type ConversationRecord,
  type EventLog,
  listBytes,
  type Storage,
  type StoredEvent,
} from '@slipway/storage'
import { type Outcome, post } from './post.ts'

/** What one request may carry; an event that is larger goes alone. */
const maxBytes = 5 * 1024 * 1024
/** A conversation that is far behind lets others come in after so many requests. */
const maxRequests = 16
/** So many conversations' last sent states are remembered; of others the state is sent once more. */
const maxStates = 5_000
const maxMoves = 2

type Failed = Extract<Outcome, { kind: 'refused' | 'unreachable' }>

const conflict: Failed = { kind: 'refused', status: 409, isGone: false, retryAfterMs: undefined }

/** What became of a turn. There may be more to tell by now. */
export interface Delivered {
  /** Something was taken. */
  readonly wasTaken: boolean
  /** What the receiver said, or that it did not, when it did not take all. */
  readonly failed: Failed | undefined
}

export interface DeliveryOptions {
  /** By what its cursors are found. */
  readonly receiver: string
  readonly baseUrl: string
  readonly headers: Readonly<Record<string, string>>
  /** Most events of a request. */
  readonly maxEvents: number
  readonly timeoutMs: number
  readonly storage: Pick<Storage, 'log' | 'conversations' | 'deliveries'>
  /** ConversationInfo as the REST interface answers it. */
  readonly info: (record: ConversationRecord) => Promise<unknown>
  readonly fetch: typeof fetch
  readonly log: Log
}

/** Where a conversation's receiver is, as a turn goes on. */
interface Turn {
  readonly record: ConversationRecord
  readonly signal: AbortSignal
  /** `updated_at` of the record that the receiver has. */
  told: number | null
  position: number
  maxEvents: number
  /** How often the receiver said that it is elsewhere. */
  moves: number
  wasTaken: boolean
}

/** Brings one receiver further, a conversation at a time. The caller sees to it that no conversation has two turns at once. */
export class Delivery {
  readonly #options: DeliveryOptions
  /** What of a conversation's record was told last. */
  readonly #states = new Map<string, string>()

  constructor(options: DeliveryOptions) {
    this.#options = options
  }

  /** Rejects only for our own mistakes and the storage's. */
  async turn(behind: Behind, signal: AbortSignal): Promise<Delivered> {
    if (behind.isRemoved) return await this.#tellRemoval(behind.conversation, signal)
    const record = await this.#find(behind.conversation)
    // Removed just now: the next look at what is behind says so.
    if (record === undefined) return { wasTaken: false, failed: undefined }
    const { position, updated_at: told } = behind
    const { maxEvents } = this.#options
    const turn: Turn = { record, signal, told, position, maxEvents, moves: 0, wasTaken: false }
    // First of all the receiver must know what the events belong to; later it has the events before it hears of their result.
    const isNew = told === null && position === 0
    const failed =
      (isNew ? await this.#tellState(turn) : undefined) ??
      (await this.#sendEvents(turn)) ??
      (turn.position >= record.head ? await this.#tellState(turn) : undefined)
    return { wasTaken: turn.wasTaken, failed }
  }

  async #tellRemoval(id: string, signal: AbortSignal): Promise<Delivered> {
    const failed = await this.#postJson({ id, execution_status: 'deleting' }, signal)
    // One that has forgotten it already needs not be told.
    const isTold = failed === undefined || (failed.kind === 'refused' && failed.status === 410)
    if (!isTold) return { wasTaken: false, failed }
    this.#states.delete(id)
    await this.#options.storage.deliveries.forget(this.#options.receiver, id)
    return { wasTaken: true, failed: undefined }
  }

  /** ConversationInfo, when something in it that matters to others has changed since it was told last. */
  async #tellState(turn: Turn): Promise<Failed | undefined> {
    const { record, signal } = turn
    if (turn.told === record.updated_at) return undefined
    const state = JSON.stringify([record.created_at, record.title, record.status, record.tags])
    if (turn.told === null || this.#states.get(record.id) !== state) {
      const failed = await this.#postJson(await this.#options.info(record), signal)
      if (failed !== undefined) return failed
      turn.wasTaken = true
      this.#remember(record.id, state)
    }
    turn.told = record.updated_at
    await this.#advance(turn)
    return undefined
  }

  async #sendEvents(turn: Turn): Promise<Failed | undefined> {
    const { record } = turn
    for (let count = 0; count < maxRequests && turn.position < record.head; count++) {
      const events = await this.#read(turn)
      const last = events.at(-1)
      // Removed in the meantime.
      if (last === undefined) return undefined
      const outcome = await this.#postEvents(turn, events)
      if (outcome.kind === 'taken') {
        turn.position = last.position
        turn.wasTaken = true
        await this.#advance(turn)
      } else if (outcome.kind === 'refused' && outcome.status === 413 && events.length > 1) {
        turn.maxEvents = Math.floor(events.length / 2)
      } else if (outcome.kind === 'elsewhere') {
        // One that sends us to and fro is asked again later.
        if (outcome.head === turn.position || ++turn.moves > maxMoves) return conflict
        await this.#goTo(turn, outcome.head)
      } else {
        return outcome
      }
    }
    return undefined
  }

  /** The receiver has less than we thought (it lost some), or more (its answer was lost). */
  async #goTo(turn: Turn, head: number): Promise<void> {
    const { log } = this.#options
    const conversation = turn.record.id
    if (head > turn.record.head) {
      const [now = turn.record] = await this.#options.storage.conversations.get([conversation])
      if (head > now.head)
        log('warn', 'a webhook receiver has more of a conversation than its log', { conversation, head })
    }
    turn.position = Math.min(head, turn.record.head)
    await this.#advance(turn)
  }

  async #read({ record, position, maxEvents }: Turn): Promise<StoredEvent[]> {
    const limit = Math.min(maxEvents, record.head - position)
    const events = await readOrNothing(this.#options.storage.log, record.id, position, limit)
    let sizeBytes = 2
    const fitting = events.findIndex(({ bytes }) => {
      sizeBytes += bytes.length + 1
      return sizeBytes > maxBytes
    })
    return fitting < 0 ? events : events.slice(0, Math.max(1, fitting))
  }

  async #postEvents({ record, position, signal }: Turn, events: readonly StoredEvent[]): Promise<Outcome> {
    const path = `events/${record.id.replaceAll('-', '')}`
    return await this.#post(path, listBytes(events), signal, { 'x-slipway-after': String(position) })
  }

  async #postJson(value: unknown, signal: AbortSignal): Promise<Failed | undefined> {
    const outcome = await this.#post('conversations', Buffer.from(JSON.stringify(value)), signal)
    if (outcome.kind === 'taken') return undefined
    return outcome.kind === 'elsewhere' ? conflict : outcome
  }

  async #post(
    path: string,
    bytes: Buffer,
    signal: AbortSignal,
    headers: Readonly<Record<string, string>> = {},
  ): Promise<Outcome> {
    const { fetch, baseUrl, timeoutMs } = this.#options
    const request = {
      headers: { 'content-type': 'application/json', ...this.#options.headers, ...headers },
      body: new Uint8Array(bytes),
      timeoutMs,
    }
    return await post(fetch, `${baseUrl}/${path}`, request, signal)
  }

  /** Durable when it resolves. */
  async #advance({ record, position, told }: Turn): Promise<void> {
    const { receiver, storage } = this.#options
    await storage.deliveries.advance(receiver, record.id, { position, updated_at: told })
  }

  async #find(id: string): Promise<ConversationRecord | undefined> {
    const [record] = await this.#options.storage.conversations.get([id])
    return record
  }

  #remember(id: string, state: string): void {
    this.#states.delete(id)
    this.#states.set(id, state)
    if (this.#states.size <= maxStates) return
    for (const oldest of this.#states.keys()) return void this.#states.delete(oldest)
  }
}

/** Nothing of a conversation that is gone. */
async function readOrNothing(
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
