import { setImmediate as nextTurn } from 'node:timers/promises'
import { type EventFilter, type Instant, invalid, type Log, must, Problem } from '@slipway/protocol'
import { Sleeper } from '../../async/signal.ts'
import {
  type AppendOptions,
  type EventDraft,
  type EventLog,
  type EventPage,
  type EventQuery,
  isReceived,
  type PagedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from '../../event-log/event-log.ts'
import { PageCache } from '../../event-log/page-cache.ts'
import { claimedPosition, pageId } from '../../event-log/page-id.ts'
import type { Step, Writer } from '../database/commit-queue.ts'
import { bufferOf, type Database } from '../database/database.ts'
import type { SqliteDeliveries } from '../deliveries/deliveries.ts'
import type { Events } from './event-rows.ts'
import { countRange, type Selection, selectRows } from './event-search.ts'
import type { Pens } from './import-locks.ts'
import type { Facets } from './kind-source-index.ts'
import { batchBytes, type Lives } from './live-tails.ts'
import type { Head, Heads } from './log-heads.ts'
import { positionsPerConversation, rowBase } from './schema.ts'
import { writeSealed } from './sealed-state.ts'
import type { TextIndex } from './text-index.ts'

const cacheBytes = 16 * 1024 * 1024
/** An instant of the log this far ahead of the clock is worth a line. */
const maxAheadMicros = 60_000_000

/** What the parts of the storage share. */
export interface Parts {
  readonly db: Database
  readonly writer: Writer
  readonly heads: Heads
  readonly events: Events
  readonly facets: Facets
  readonly lives: Lives
  readonly pens: Pens
  readonly deliveries: SqliteDeliveries
  readonly text: TextIndex
  readonly now: () => Instant
  readonly log: Log
}

/** EventLog on SQLite. */
export class SqliteEventLog implements EventLog {
  readonly #parts: Parts
  readonly #pages = new PageCache(cacheBytes)
  #lastKey: { readonly conversation: string; readonly query?: EventQuery; readonly key: string } = {
    conversation: '',
    key: '',
  }
  readonly #warned = new Set<number>()
  readonly #closing = new AbortController()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  append(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    options: AppendOptions = {},
  ): Promise<StoredEvent[]> {
    return this.#parts.writer.write(() => this.#planAppend(conversation, events, options))
  }

  async read(
    conversation: string,
    after: number,
    limit: number,
    maxBytes = Infinity,
  ): Promise<StoredEvent[]> {
    const { heads, events } = this.#parts
    const { ordinal, head } = heads.get(conversation)
    const first = Math.max(0, after)
    return first >= head ? [] : events.range(ordinal, first, Math.min(first + limit, head), maxBytes)
  }

  async search(conversation: string, query: EventQuery): Promise<EventPage> {
    const head = this.#parts.heads.get(conversation)
    const { limit, kind, body } = query
    const key = this.#keyOf(conversation, query)
    const known = this.#pages.get(key, head)
    if (known !== undefined) return known
    const selection = this.#selection(head, query)
    const items = body
      ? await this.#matching(selection, body, kind)
      : selectRows(this.#parts.db, selection).map(([row, bytes]) => ({
          position: row % positionsPerConversation,
          bytes: bufferOf(bytes),
        }))
    const next = items.length > limit ? items.pop() : undefined
    const page = { items, next_page_id: next === undefined ? null : this.#pageId(head, next.position) }
    const isSettled = selection.isDescending ? selection.start !== undefined : next !== undefined
    this.#pages.put(key, page, head, isSettled)
    return page
  }

  /** What names a page in the cache. A page that is asked for again and again comes with the same query object. */
  #keyOf(conversation: string, query: EventQuery): string {
    if (this.#lastKey.query !== query || this.#lastKey.conversation !== conversation) {
      const { limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt } = query
      const members = [limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt]
      this.#lastKey = { conversation, query, key: JSON.stringify([conversation, ...members]) }
    }
    return this.#lastKey.key
  }

  async count(conversation: string, filter: EventFilter): Promise<number> {
    const head = this.#parts.heads.get(conversation)
    const { kind, body } = filter
    const selection = this.#selection(head, { ...filter, limit: 0, sort_order: 'TIMESTAMP' })
    const { facets } = selection
    if (facets?.length === 0 || (body && this.#isNoMessage(kind))) return 0
    if (facets === undefined && !body && head.isInOrder) return countRange(this.#parts.db, selection)
    return await this.#parts.text.count(selection, body || undefined)
  }

  async get(conversation: string, ids: readonly string[]): Promise<(StoredEvent | undefined)[]> {
    const head = this.#parts.heads.get(conversation)
    return ids.map((id) => this.#visible(head, id))
  }

  async *tail(
    conversation: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly StoredEvent[]> {
    const { heads, lives } = this.#parts
    const { ordinal } = heads.get(conversation)
    const live = lives.enter(ordinal)
    using sleeper = new Sleeper(signal)
    try {
      for (let position = Math.max(0, after); !signal.aborted && !this.#closing.signal.aborted; ) {
        const { rings } = live.bell
        const head = heads.find(conversation)
        if (head?.ordinal !== ordinal) return
        if (head.head <= position) {
          await live.bell.since(rings, sleeper)
          continue
        }
        const shared = live.after(position)
        const batch = shared ?? this.#parts.events.range(ordinal, position, head.head, batchBytes)
        position = batch.at(-1)?.position ?? position
        yield batch
        // A reader far behind that never waits would keep everybody else from their turn.
        if (shared === undefined) await nextTurn()
      }
    } finally {
      lives.leave(ordinal)
    }
  }

  /** Ends the tails. */
  close(): void {
    this.#closing.abort()
    this.#parts.lives.ringAll()
  }

  #planAppend(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    { after, record }: AppendOptions,
  ): Step<StoredEvent[]> {
    const { deliveries, heads, lives, pens, text } = this.#parts
    pens.mustBeFree(conversation)
    const head = heads.get(conversation)
    const { answers, fresh, extent } = this.#parts.events.place(head.ordinal, head, events)
    if (fresh.length > 0 || events.length === 0) this.#mustEndAt(head, after)
    if (!events.every(isReceived)) this.#watchClock(head)
    const isNothing = fresh.length === 0 && (events.length > 0 || record === undefined)
    return {
      apply: () => {
        if (isNothing) return
        this.#parts.events.insert(head.ordinal, fresh)
        heads.move(head, extent, record)
        this.#writeRecord(head.ordinal, record)
      },
      done: () => {
        this.#parts.writer.numbers.events += fresh.length
        const live = lives.get(head.ordinal)
        if (live !== undefined && fresh.length > 0) {
          live.push(fresh.map(({ event }) => event))
          live.bell.ring()
        }
        if (fresh.some(({ kind }) => kind === 'MessageEvent')) text.expect(head.ordinal)
        if (!isNothing) deliveries.note(conversation)
        return [...answers]
      },
    }
  }

  /** What of a record does not move with the log. */
  #writeRecord(ordinal: number, { request, sealed }: AppendOptions['record'] = {}): void {
    const { db } = this.#parts
    if (request !== undefined)
      db.run('UPDATE conversation SET request = ? WHERE ordinal = ?', request, ordinal)
    if (sealed !== undefined) writeSealed(db, ordinal, sealed)
  }

  #mustEndAt(head: Head, after: number | undefined): void {
    if (after === undefined || after === head.head) return
    throw new Problem('conflict', `The log ends at position ${head.head}, not at ${after}`)
  }

  #watchClock({ ordinal, id, lastInstant = 0 }: Head): void {
    if (lastInstant - this.#parts.now() < maxAheadMicros || this.#warned.has(ordinal)) return
    this.#warned.add(ordinal)
    const message = 'the newest event is in the future; events after it get later timestamps'
    this.#parts.log('warn', message, { conversation: id })
  }

  /** An event by its id, when it is part of the log. */
  #visible(head: Head, id: string): StoredEvent | undefined {
    const event = this.#parts.events.byId(head.ordinal, id)
    return event !== undefined && event.position <= head.head ? event : undefined
  }

  /** The selection of a page, with one event more than asked for. */
  #selection(head: Head, query: EventQuery): Selection {
    const { kind, source, key, timestamp__gte, timestamp__lt, page_id, limit, sort_order } = query
    return {
      ordinal: head.ordinal,
      extent: head,
      isDescending: sort_order === 'TIMESTAMP_DESC',
      from: timestamp__gte,
      before: timestamp__lt,
      facets: this.#parts.facets.matching(kind || undefined, source || undefined, key),
      start: page_id ? this.#start(head, page_id) : undefined,
      limit: limit + 1,
    }
  }

  #start(head: Head, text: string): Selection['start'] {
    const start = this.#claimed(head, text) ?? this.#visible(head, text)
    if (start === undefined) throw invalid(['query', 'page_id'], 'Unknown page id')
    return { instant: start.instant, row: rowBase(head.ordinal) + start.position }
  }

  #pageId({ id, ordinal }: Head, position: number): string {
    return pageId(id, position, must(this.#parts.events.placeOf(ordinal, position), 'the next event').id)
  }

  #claimed({ id, ordinal, head }: Head, text: string): Omit<StoredEvent, 'bytes'> | undefined {
    const position = claimedPosition(text)
    if (position === undefined || position > head) return undefined
    const place = this.#parts.events.placeOf(ordinal, position)
    return place !== undefined && pageId(id, position, place.id) === text ? { position, ...place } : undefined
  }

  async #matching(selection: Selection, body: string, kind: string | undefined): Promise<PagedEvent[]> {
    if (selection.facets?.length === 0 || this.#isNoMessage(kind)) return []
    const positions = await this.#parts.text.search(selection, body)
    return this.#parts.events.paged(selection.ordinal, positions)
  }

  /** Only messages have a body to look into. */
  #isNoMessage(kind: string | undefined): boolean {
    return Boolean(kind) && !this.#parts.facets.matching(kind, undefined)?.some((facet) => facet & 1)
  }
}
