import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  type EventFilter,
  firstInstant,
  hasMessageTexts,
  type Instant,
  type LogFunction,
  Problem,
} from '@slipway/protocol'
import { Waiter } from '@slipway/shared/async'
import type { ImportLocks } from '../../conversations/import-locks.ts'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { pageOfOtherHistory } from '../../event-log/cursor.ts'
import { DamagedLogError, DamagedRowError } from '../../event-log/damage.ts'
import type { DamageReport } from '../../event-log/damage-report.ts'
import {
  type AppendOptions,
  type EventDraft,
  type EventLog,
  type EventPage,
  type EventQuery,
  isReceivedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from '../../event-log/event-log.ts'
import { batchBytes, type LiveTails } from '../../event-log/live-tails.ts'
import { PageCache } from '../../event-log/page-cache.ts'
import { decodeEventPageId, encodeEventPageId, isPageIdIn, isPageIdOf } from '../../event-log/page-id.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { CommitQueue, PlannedChange } from '../database/commit-queue.ts'
import type { Database } from '../database/database.ts'
import type { HighWaterMark } from '../database/high-water-mark.ts'
import type { StorageHealth } from '../database/storage-health.ts'
import type { SqliteDeliveries } from '../deliveries/deliveries.ts'
import type { EventRows } from './event-rows.ts'
import { countRange, rowBounds, type Selection, selectRows } from './event-search.ts'
import type { IndexGuard } from './index-check.ts'
import type { KindSourceIndex } from './kind-source-index.ts'
import type { LogHead, LogHeads } from './log-heads.ts'
import { selectByMoment } from './moment-search.ts'
import { rowBase } from './schema.ts'
import { splicePage } from './spliced-page.ts'
import type { LimitGuard } from './storage-limits.ts'
import type { TextIndex } from './text-index.ts'

const cacheBytes = 16 * 1024 * 1024
/** A log whose newest instant is further ahead of the clock is logged. */
const maxAheadMicros = 60_000_000

/** Components that the parts of the storage share. */
export interface StorageContext {
  readonly db: Database
  readonly writer: CommitQueue
  readonly heads: LogHeads
  readonly events: EventRows
  readonly indexes: IndexGuard
  readonly kindSources: KindSourceIndex
  readonly liveTails: LiveTails
  readonly importLocks: ImportLocks
  readonly deliveries: SqliteDeliveries
  readonly text: TextIndex
  readonly mark: HighWaterMark
  readonly damage: DamageReport
  readonly health: StorageHealth
  /** Undefined without limits. */
  readonly limits: LimitGuard | undefined
  readonly now: () => Instant
  readonly log: LogFunction
}

/** EventLog on SQLite. */
export class SqliteEventLog implements EventLog {
  readonly #context: StorageContext
  readonly #pages = new PageCache(cacheBytes)
  #lastKey: { readonly conversation: string; readonly query?: EventQuery; readonly key: string } = {
    conversation: '',
    key: '',
  }
  readonly #warnedOrdinals = new Set<number>()
  readonly #closing = new AbortController()

  constructor(context: StorageContext) {
    this.#context = context
  }

  append(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    options: AppendOptions = {},
  ): Promise<StoredEvent[]> {
    // Where an id may be stored already, the index of ids decides.
    const isChecked = events.some((event) => event.id !== undefined)
    return isChecked
      ? this.#appendChecked(conversation, events, options)
      : this.#append(conversation, events, options)
  }

  async #appendChecked(...args: Parameters<SqliteEventLog['append']>): Promise<StoredEvent[]> {
    const head = this.#context.heads.find(args[0])
    const checking = head && this.#context.indexes.ensure('ids', head)
    if (checking !== undefined) await checking
    return await this.#append(...args)
  }

  #append(
    ...[conversation, events, options = {}]: Parameters<SqliteEventLog['append']>
  ): Promise<StoredEvent[]> {
    return this.#context.writer.write(() => this.#planAppend(conversation, events, options))
  }

  async read(
    conversation: string,
    after: number,
    limit: number,
    maxBytes = Infinity,
  ): Promise<StoredEvent[]> {
    const { heads, events } = this.#context
    const { ordinal, head } = heads.get(conversation)
    const first = Math.max(0, after)
    return first >= head ? [] : events.readRange(ordinal, first, Math.min(first + limit, head), maxBytes)
  }

  async search(conversation: string, query: EventQuery): Promise<EventPage> {
    const head = this.#context.heads.get(conversation)
    const { limit, kind, body } = query
    const key = this.#cacheKey(conversation, query)
    const cached = this.#pages.get(key, head)
    if (cached !== undefined) return cached
    const checking = this.#checkIndexes(head, query)
    if (checking !== undefined) {
      await checking
      return await this.search(conversation, query)
    }
    const selection = this.#selection(head, query)
    const page =
      (body ? undefined : this.#splicePage(head, selection)) ??
      toPage(
        head,
        limit,
        body ? await this.#searchText(selection, body, kind) : this.#readSelection(selection),
      )
    const isImmutable = selection.isDescending ? selection.start !== undefined : page.next_page_id !== null
    this.#pages.set(key, page, head, isImmutable)
    return page
  }

  /** Key of the page cache. Repeated requests pass the same query object, so the last key is reused. */
  #cacheKey(conversation: string, query: EventQuery): string {
    if (this.#lastKey.query !== query || this.#lastKey.conversation !== conversation) {
      const { limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt } = query
      const members = [limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt]
      this.#lastKey = { conversation, query, key: JSON.stringify([conversation, ...members]) }
    }
    return this.#lastKey.key
  }

  async count(conversation: string, filter: EventFilter): Promise<number> {
    await this.#checkIndexes(this.#context.heads.get(conversation), filter)
    const head = this.#context.heads.get(conversation)
    const { kind, body } = filter
    const selection = this.#selection(head, { ...filter, limit: 0, sort_order: 'TIMESTAMP' })
    const { kindSources } = selection
    if (kindSources?.length === 0 || (body && this.#excludesMessages(kind))) return 0
    if (kindSources === undefined && !body && head.isInOrder) {
      const { db, events } = this.#context
      return events.named(head.ordinal, () => countRange(db, selection))
    }
    const { text } = this.#context
    return await text
      .count(selection, body || undefined)
      .catch((error: unknown) => this.#failSearch(error, head))
  }

  async get(conversation: string, ids: readonly string[]): Promise<(StoredEvent | undefined)[]> {
    await this.#context.indexes.ensure('ids', this.#context.heads.get(conversation))
    const head = this.#context.heads.get(conversation)
    return ids.map((id) => this.#findVisible(head, id))
  }

  async *tail(
    conversation: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly StoredEvent[]> {
    const { heads, liveTails } = this.#context
    const { ordinal } = heads.get(conversation)
    const liveTail = liveTails.acquire(ordinal)
    using waiter = new Waiter(signal)
    try {
      for (let position = Math.max(0, after); !signal.aborted && !this.#closing.signal.aborted; ) {
        const { version } = liveTail.signal
        const head = heads.find(conversation)
        if (head?.ordinal !== ordinal) return
        if (head.head <= position) {
          await liveTail.signal.wait(version, waiter)
          continue
        }
        const shared = liveTail.batchAfter(position)
        const batch = shared ?? this.#context.events.readRange(ordinal, position, head.head, batchBytes)
        position = batch.at(-1)?.position ?? position
        yield batch
        // A reader far behind never waits, and would block the event loop.
        if (shared === undefined) await nextTurn()
      }
    } finally {
      liveTails.release(ordinal)
    }
  }

  /** Drops all kept pages. */
  releaseMemory(): void {
    this.#pages.clear()
  }

  /** Ends all tails. */
  close(): void {
    this.#closing.abort()
    this.#context.liveTails.notifyAll()
  }

  #planAppend(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    { after, record }: AppendOptions,
  ): PlannedChange<StoredEvent[]> {
    const { deliveries, heads, liveTails, importLocks, text } = this.#context
    importLocks.assertFree(conversation)
    const head = heads.get(conversation)
    const { results, newEvents, extent } = this.#context.events.planAppend(head.ordinal, head, events)
    if (newEvents.length > 0 || events.length === 0) this.#mustEndAt(head, after)
    this.#context.limits?.assertRoom(head, extent, newEvents)
    if (!events.every(isReceivedEvent)) this.#warnAboutClock(head)
    const isNoChange = newEvents.length === 0 && (events.length > 0 || record === undefined)
    return {
      apply: () => {
        if (isNoChange) return
        const { events } = this.#context
        events.named(head.ordinal, () => events.insert(head.ordinal, newEvents))
        heads.update(head, extent, record)
        this.#context.limits?.add(extent.bytes - head.bytes)
      },
      done: () => {
        this.#context.writer.metrics.events.inc(newEvents.length)
        const liveTail = liveTails.get(head.ordinal)
        if (liveTail !== undefined && newEvents.length > 0) {
          liveTail.push(newEvents.map(({ event }) => event))
          liveTail.signal.notify()
        }
        if (newEvents.some(({ kind }) => hasMessageTexts(kind))) text.scheduleIndexing(head.ordinal)
        if (!isNoChange) deliveries.markChanged(conversation)
        return [...results]
      },
    }
  }

  /**
   * Before the first search that uses the indexes of a conversation: rejects with a DamageError when they are
   * wrong.
   */
  #checkIndexes(head: LogHead, query: EventFilter & Partial<EventQuery>): Promise<void> | undefined {
    const { kind, source, key, body, timestamp__gte, timestamp__lt, page_id } = query
    const { indexes } = this.#context
    const isFiltered = kind || source || key || body || (timestamp__gte ?? timestamp__lt) !== undefined
    const isById = page_id && decodeEventPageId(page_id) === undefined
    return (
      (isFiltered || !head.isInOrder ? indexes.ensure('order', head) : undefined) ??
      (isById ? indexes.ensure('ids', head) : undefined)
    )
  }

  #mustEndAt(head: LogHead, after: number | undefined): void {
    if (after === undefined || after === head.head) return
    throw new Problem('conflict', `The log ends at position ${head.head}, not at ${after}`)
  }

  #warnAboutClock({ ordinal, id, lastInstant = 0 }: LogHead): void {
    if (lastInstant - this.#context.now() < maxAheadMicros || this.#warnedOrdinals.has(ordinal)) return
    this.#warnedOrdinals.add(ordinal)
    const message = 'the newest event is in the future; events after it get later timestamps'
    this.#context.log('warn', message, { conversation: id })
  }

  #findVisible(head: LogHead, id: string): StoredEvent | undefined {
    const event = this.#context.events.byId(head.ordinal, id)
    return event !== undefined && event.position <= head.head ? event : undefined
  }

  /** The selection of a page, with one more event to find the next page. */
  #selection(head: LogHead, query: EventQuery): Selection {
    const { kind, source, key, timestamp__gte, timestamp__lt, page_id, limit, sort_order } = query
    return {
      ordinal: head.ordinal,
      extent: head,
      isDescending: sort_order === 'TIMESTAMP_DESC',
      from: timestamp__gte && firstInstant(timestamp__gte),
      before: timestamp__lt && firstInstant(timestamp__lt),
      bounds: { from: timestamp__gte, before: timestamp__lt },
      kindSources: this.#context.kindSources.matching(kind || undefined, source || undefined, key),
      start: page_id ? this.#findPageStart(head, page_id) : undefined,
      limit: limit + 1,
    }
  }

  #findPageStart(head: LogHead, text: string): Selection['start'] {
    const start = this.#findByPageId(head, text) ?? this.#findVisible(head, text)
    if (start === undefined) throw isPageIdIn(text, head.id) ? pageOfOtherHistory(head.head) : unknownPageId()
    const { instant, finer, position } = start
    return { instant, finer, row: rowBase(head.ordinal) + position }
  }

  #findByPageId({ id, ordinal, head }: LogHead, text: string): Omit<StoredEvent, 'bytes'> | undefined {
    const position = decodeEventPageId(text)
    if (position === undefined || position > head) return undefined
    const found = this.#context.events.getIdAndMoment(ordinal, position)
    return found !== undefined && isPageIdOf(text, id, position, found.id)
      ? { position, ...found }
      : undefined
  }

  async #searchText(selection: Selection, body: string, kind: string | undefined): Promise<StoredEvent[]> {
    if (selection.kindSources?.length === 0 || this.#excludesMessages(kind)) return []
    const { text } = this.#context
    const positions = await text
      .search(selection, body)
      .catch((error: unknown) => this.#failSearch(error, selection))
    return this.#context.events.getPaged(selection.ordinal, positions)
  }

  /** Throws the DamageError of what a text search found damaged, or the error. */
  #failSearch(error: unknown, { ordinal }: { readonly ordinal: number }): never {
    if (error instanceof DamagedLogError) throw this.#context.events.reportPage(ordinal, error)
    if (error instanceof DamagedRowError)
      this.#context.events.getPaged(ordinal, [error.row % positionsPerConversation])
    throw error
  }

  #splicePage(head: LogHead, selection: Selection): EventPage | undefined {
    if (selection.kindSources !== undefined || !selection.extent.isInOrder) return undefined
    const { db, events } = this.#context
    const encodePageId = (position: number, id: string) => encodeEventPageId(head.id, position, id)
    return events.named(head.ordinal, () => splicePage(db, events, selection, encodePageId))
  }

  #readSelection(selection: Selection): StoredEvent[] {
    const { db, events } = this.#context
    const select = selection.extent.hasFiner ? selectByMoment : selectRows
    const rows = events.named(selection.ordinal, () => select(db, selection))
    if (selection.kindSources === undefined && selection.extent.isInOrder)
      events.verifyDense(rows, rowBounds(db, selection), selection)
    return rows.map((row) => events.verify(row))
  }

  /** Only messages have a body. */
  #excludesMessages(kind: string | undefined): boolean {
    return Boolean(kind) && !this.#context.kindSources.matching(kind, undefined)?.some((number) => number & 1)
  }
}

/** The page of these events, of which one above the limit begins the next page. */
function toPage({ id }: LogHead, limit: number, events: StoredEvent[]): EventPage {
  const next = events.length > limit ? events.pop() : undefined
  return {
    items: events.map(({ position, bytes }) => ({ position, bytes })),
    next_page_id: next === undefined ? null : encodeEventPageId(id, next.position, next.id),
  }
}
