import type { EventFilter, EventSortOrder, Instant, leafEventIdKey } from '@slipway/protocol'

/** An event as it stands in the log. Frozen in meaning: the same object may be handed to a thousand readers. */
export interface StoredEvent {
  /** 1, 2, 3 ... in its conversation, without gap or repeat. */
  readonly position: number
  readonly id: string
  /** The moment of its timestamp, in microseconds. */
  readonly instant: Instant
  /** The stored JSON text, UTF-8. This is what every reader gets, byte for byte. Never change it in place. */
  readonly bytes: Buffer
}

/**
 * An event that we create. The log gives it an id (UUID v4) when it has none, a timestamp strictly above its
 * predecessor's (by at least 1 µs), and a position. Members whose value is undefined or null are left out, except where
 * the specification requires them (see `serialiseEvent`). `kind` and `source` are required here.
 */
export interface EventDraft {
  readonly id?: string
  readonly kind: string
  readonly source: string
  readonly [member: string]: unknown
}

/** An event that came from outside, already validated: its bytes are kept as they are. */
export interface ReceivedEvent {
  readonly bytes: Buffer
  readonly id: string
  readonly instant: Instant
  readonly kind: string
  /** Its own, or its kind's default (spec 2.2). */
  readonly source: string
  /** Keep it under its id even when another event of other bytes has that id (logs of other writers do that). */
  readonly keepDuplicateId?: boolean
  /** Of a state update: its key. */
  readonly key?: string
}

export interface AppendOptions {
  /** Refuse with a `conflict` Problem unless the log ends at this position. */
  readonly after?: number
  /**
   * Change the conversation's record in the same transaction, also with no events at all. Events that were all there
   * already change nothing, so that a repeat does not.
   */
  readonly record?: {
    readonly status?: string
    readonly stats?: string
    readonly request?: string
    readonly sealed?: Buffer
  }
}

export interface EventQuery extends EventFilter {
  readonly limit: number
  readonly sort_order: EventSortOrder
  /** Where to begin: a `next_page_id` of ours, or the id of an event. A Problem `invalid` at `["query","page_id"]` otherwise. */
  readonly page_id?: string | undefined
  /** Keep only state updates of this key. No other one is told apart. */
  readonly key?: typeof leafEventIdKey | undefined
}

/** An event of a page: what its reader sends on. Its id and timestamp are in its bytes. */
export type PagedEvent = Pick<StoredEvent, 'position' | 'bytes'>

/**
 * One page. The log may answer the very same object again for as long as the page is unchanged.
 */
export interface EventPage {
  readonly items: readonly PagedEvent[]
  /** Begin the following page here; null exactly when nothing more matches. */
  readonly next_page_id: string | null
  /** Of the page's reader: what it made of the page, for the next time. (A WeakMap would keep pages alive for long.) */
  memo?: unknown
}

/**
 * Where events are kept. Conversations are named by their UUID in lower case with dashes.
 *
 * Promises:
 * - `append` resolves only after the events are durable (WAL, synchronous FULL); it is all or nothing. Appends of
 *   one turn of the event loop share one transaction. Readers see only what is durable.
 * - Positions of a conversation are 1..n without gap or repeat; event ids are unique in it.
 * - An event sent twice (same id, same bytes) is stored once and answered as the first time; the same id with other
 *   content is a Problem `conflict`. A draft with an id is compared as if it had the stored event's timestamp.
 * - Order of `search` is (instant, position); descending is the exact reverse. A page walk gives no event twice and
 *   misses none that was there when it began.
 * - `tail` gives each event after `after` once and in order of position, started at any moment.
 * - Stored bytes are served bytes; no method here parses them (the text index does, behind the append path).
 * - Every method rejects with a Problem `not_found` when there is no such conversation; while an import into the
 *   conversation is under way `append` rejects with a Problem `busy`.
 */
export interface EventLog {
  append(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    options?: AppendOptions,
  ): Promise<StoredEvent[]>
  /** Events after a position, in order of position: at most `limit`, and it stops after `maxBytes` (at least one). */
  read(conversation: string, after: number, limit: number, maxBytes?: number): Promise<StoredEvent[]>
  search(conversation: string, query: EventQuery): Promise<EventPage>
  count(conversation: string, filter: EventFilter): Promise<number>
  /** By ids, in the order asked for, undefined for those that are not there. */
  get(conversation: string, ids: readonly string[]): Promise<(StoredEvent | undefined)[]>
  /**
   * What is after `after`, for ever, in batches (each bounded to about 256 KiB unless one event is larger); waits
   * when there is nothing. Ends quietly when the signal aborts or the conversation is deleted.
   */
  tail(conversation: string, after: number, signal: AbortSignal): AsyncIterable<readonly StoredEvent[]>
}

/** Says whether an event came from outside (bytes) or is ours to write. */
export function isReceivedEvent(event: EventDraft | ReceivedEvent): event is ReceivedEvent {
  return Buffer.isBuffer((event as ReceivedEvent).bytes)
}
