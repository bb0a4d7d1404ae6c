import type { EventFilter, EventSortOrder, leafEventIdKey, Moment } from '@slipway/protocol'

/** An event of the log, with the moment of its timestamp. Immutable: readers share the object. */
export interface StoredEvent extends Moment {
  /** 1, 2, 3 ... in its conversation, without gap or repeat. */
  readonly position: number
  readonly id: string
  /** The stored JSON text, UTF-8: what every reader gets, byte for byte. Never change it in place. */
  readonly bytes: Buffer
}

/**
 * An event of our own. The log adds a missing id (UUID v4), a timestamp at least 1 µs above its
 * predecessor's, and a position. Members that are undefined or null are omitted, except where the
 * specification requires them (see `serializeEvent`).
 */
export interface EventDraft {
  readonly id?: string
  readonly kind: string
  readonly source: string
  readonly [member: string]: unknown
}

/** An event from outside, already validated; its bytes are stored unchanged. */
export interface ReceivedEvent extends Moment {
  readonly bytes: Buffer
  readonly id: string
  readonly kind: string
  /** Its own, or the default of its kind (spec 2.2). */
  readonly source: string
  /** Store it also when an event with other bytes has its id, as happens in logs of other writers. */
  readonly keepDuplicateId?: boolean
  /** The key of a state update. */
  readonly key?: string
}

/** New values of a conversation's record; absent members stay. */
export interface RecordUpdate {
  readonly title?: string | null
  /** The title of a conversation without one. */
  readonly missing_title?: string
  readonly tags?: Readonly<Record<string, string>>
  readonly status?: string
  readonly stats?: string
  readonly request?: string
  readonly sealed?: Buffer
}

export interface AppendOptions {
  /** Reject with a Problem `conflict` unless the log ends at this position. */
  readonly after?: number
  /**
   * Updates the record in the same transaction, also without events. When all of the events are stored
   * already, the record stays, so that a repeated call changes nothing.
   */
  readonly record?: Omit<RecordUpdate, 'title' | 'missing_title' | 'tags'>
}

export interface EventQuery extends EventFilter {
  readonly limit: number
  readonly sort_order: EventSortOrder
  /**
   * The first event: a `next_page_id`, or the id of an event. Anything else is an `unknownPageId`; a page id
   * of an event that the conversation does not have any more is a `pageOfOtherHistory`.
   */
  readonly page_id?: string | undefined
  /** State updates with this key only. */
  readonly key?: typeof leafEventIdKey | undefined
}

/** An event of a page. Its id and timestamp are in its bytes. */
export type PagedEvent = Pick<StoredEvent, 'position' | 'bytes'>

/** The log may return the same object again while the page is unchanged. */
export interface EventPage {
  readonly items: readonly PagedEvent[]
  /** Where the next page begins; null exactly when nothing more matches. */
  readonly next_page_id: string | null
  /** The page as JSON, where it was read as one text. */
  readonly json?: Buffer
  /** Cache of `pageBytes`. (A WeakMap would keep pages alive for long.) */
  encoded?: EncodedPage
}

/** A page as JSON. */
export interface EncodedPage {
  readonly bytes: Buffer
  etag: string | undefined
}

/**
 * The append-only event store. Conversations are named by their UUID in lower case with dashes.
 *
 * Promises:
 * - `append` resolves after the events are durable (WAL, synchronous FULL) and is atomic. Appends of one turn
 *   of the event loop share a transaction. Readers see durable events only.
 * - Positions of a conversation are 1..n without gap or repeat; event ids are unique in it.
 * - An event that is appended twice (same id, same bytes) is stored once, and both calls return it; the same
 *   id with other content is a Problem `conflict`. A draft with an id is compared as if it had the stored
 *   event's timestamp.
 * - Order of `search` is (moment, position); descending is the exact reverse. A walk of all pages returns no
 *   event twice and every event that was there when it began.
 * - `tail` yields each event after `after` once, in order of position, whenever it starts.
 * - Stored bytes are served bytes: no method parses them (the text index does, after the append).
 * - Every method rejects with a Problem `not_found` for an unknown conversation. During an import into the
 *   conversation `append` rejects with a Problem `busy`.
 */
export interface EventLog {
  append(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    options?: AppendOptions,
  ): Promise<StoredEvent[]>
  /** Events after a position, in order: at most `limit`; stops after `maxBytes`, with at least one event. */
  read(conversation: string, after: number, limit: number, maxBytes?: number): Promise<StoredEvent[]>
  search(conversation: string, query: EventQuery): Promise<EventPage>
  count(conversation: string, filter: EventFilter): Promise<number>
  /** By ids, in their order; undefined for unknown ones. */
  get(conversation: string, ids: readonly string[]): Promise<(StoredEvent | undefined)[]>
  /**
   * Events after `after`, without end, in batches of about 256 KiB (more for one larger event); waits for new
   * ones. Ends when the signal aborts or the conversation is removed.
   */
  tail(conversation: string, after: number, signal: AbortSignal): AsyncIterable<readonly StoredEvent[]>
}

export function isReceivedEvent(event: EventDraft | ReceivedEvent): event is ReceivedEvent {
  return Buffer.isBuffer((event as ReceivedEvent).bytes)
}
