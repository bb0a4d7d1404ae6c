import { setImmediate as nextTurn, setTimeout as pause } from 'node:timers/promises'
import {
  type EventFilter,
  type Instant,
  isStorageFailure,
  type LogFunction,
  Problem,
} from '@slipway/protocol'
import { Waiter } from '@slipway/shared/async'
import type { ImportLocks } from '../../conversations/import-locks.ts'
import type { DocumentStore } from '../../documents/document-store.ts'
import { duplicateId } from '../../event-log/append-planner.ts'
import { pageOfOtherHistory } from '../../event-log/cursor.ts'
import { DamageError } from '../../event-log/damage.ts'
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
import type { KindSourceNumbers } from '../../event-log/kind-source-numbers.ts'
import { batchBytes, type LiveTails } from '../../event-log/live-tails.ts'
import { PageCache } from '../../event-log/page-cache.ts'
import { decodeEventPageId, encodeEventPageId, isPageIdIn, isPageIdOf } from '../../event-log/page-id.ts'
import { unknownPageId } from '../../paging/page-id-codec.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { PostgresDeliveries } from '../deliveries/deliveries.ts'
import { type GroupCommit, idDigest } from '../group-commit/group-commit.ts'
import { type EventRow, eventColumns, type GroupPlan, toStoredEvent } from '../group-commit/group-plan.ts'
import { conversationNotFound, type LogHead, type LogHeads } from '../group-commit/log-heads.ts'
import type { PostgresConversationLeases } from '../leases/conversation-leases.ts'
import { countEvents, type PageStart, type Selection, selectEvents } from './event-search.ts'

const cacheBytes = 16 * 1024 * 1024
/** A log whose newest instant is further ahead of the clock is logged. */
const maxAheadMicros = 60_000_000
const rowsPerRead = 1_000
/** Between the attempts of a tail while the database is away. */
const retryMs = 250

/** Components that the parts of the storage share. */
export interface StorageContext {
  readonly db: PostgresDatabase
  readonly writer: GroupCommit
  readonly heads: LogHeads
  readonly kindSources: KindSourceNumbers
  readonly liveTails: LiveTails
  readonly importLocks: ImportLocks
  readonly deliveries: PostgresDeliveries
  readonly documents: DocumentStore
  readonly damage: DamageReport
  /** Where servers share the data. */
  readonly leases: PostgresConversationLeases | undefined
  readonly now: () => Instant
  readonly log: LogFunction
}

const selectByIdsSql = `SELECT ${eventColumns} FROM event
  WHERE conversation = $1 AND sha256(id) = ANY($2::bytea[]) AND position <= $3`
const selectIdSql = 'SELECT id, instant, finer FROM event WHERE conversation = $1 AND position = $2'
/** The first position that is missing in a range. */
const selectGapSql = `SELECT position + 1 FROM (
    SELECT position, lead(position) OVER (ORDER BY position) AS next
    FROM event WHERE conversation = $1 AND position BETWEEN $2 AND $3
  ) AS range WHERE next > position + 1 ORDER BY position LIMIT 1`
const selectRangeSql = `SELECT position, id, instant, body, finer FROM (
    SELECT *, sum(octet_length(body)) OVER (ORDER BY position) - octet_length(body) AS preceding FROM (
      SELECT ${eventColumns} FROM event WHERE conversation = $1 AND position > $2 AND position <= $3
      ORDER BY position LIMIT ${rowsPerRead}
    ) AS range
  ) AS measured WHERE preceding < $4::bigint ORDER BY position`

/** EventLog on PostgreSQL. */
export class PostgresEventLog implements EventLog {
  readonly #context: StorageContext
  readonly #pages = new PageCache(cacheBytes)
  readonly #warnedOrdinals = new Set<number>()
  readonly #closing = new AbortController()

  constructor(context: StorageContext) {
    this.#context = context
  }

  /** Drops all kept pages. */
  releaseMemory(): void {
    this.#pages.clear()
  }

  append(
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    options: AppendOptions = {},
  ): Promise<StoredEvent[]> {
    return this.#context.writer.write({
      conversations: [conversation],
      ids: lookedUpIds(events),
      plan: (group) => this.#planAppend(group, conversation, events, options),
    })
  }

  async read(
    conversation: string,
    after: number,
    limit: number,
    maxBytes = Infinity,
  ): Promise<StoredEvent[]> {
    const head = await this.#context.heads.get(conversation)
    const first = Math.max(0, after)
    const last = Math.min(first + limit, head.head)
    return await this.#readRange(head, first, last, maxBytes)
  }

  async search(conversation: string, query: EventQuery): Promise<EventPage> {
    const head = await this.#context.heads.get(conversation)
    const { limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt } = query
    const members = [limit, sort_order, page_id, kind, source, key, body, timestamp__gte, timestamp__lt]
    const cacheKey = JSON.stringify([conversation, ...members])
    const cached = this.#pages.get(cacheKey, head)
    if (cached !== undefined) return cached
    const rows = await this.#readPage(head, query)
    await this.#verifyDense(head, query, rows)
    const items = rows.map(toStoredEvent)
    const next = items.length > limit ? items.pop() : undefined
    const page = {
      items: items.map(({ position, bytes }) => ({ position, bytes })),
      next_page_id: next === undefined ? null : encodeEventPageId(head.id, next.position, next.id),
    }
    const isImmutable = sort_order === 'TIMESTAMP_DESC' ? Boolean(page_id) : next !== undefined
    this.#pages.set(cacheKey, page, head, isImmutable)
    return page
  }

  async count(conversation: string, filter: EventFilter): Promise<number> {
    const head = await this.#context.heads.get(conversation)
    const selection = await this.#selection(head, filter)
    if (this.#isEmpty(selection)) return 0
    const { kindSources } = selection
    const { body, timestamp__gte, timestamp__lt } = filter
    const isAll = !body && timestamp__gte === undefined && timestamp__lt === undefined
    if (isAll && kindSources === undefined) {
      await this.#verifyEnd(head)
      return head.head
    }
    const { count, first, last } = await countEvents(this.#context.db, selection)
    const isRange = kindSources === undefined && !body && head.isInOrder && count > 0
    if (isRange && last - first + 1 !== count) {
      const gap = await this.#context.db.query<[number]>(selectGapSql, [head.ordinal, first, last])
      for (const [position] of gap) throw await this.#missing(head, position)
    }
    return count
  }

  async get(conversation: string, ids: readonly string[]): Promise<(StoredEvent | undefined)[]> {
    const head = await this.#context.heads.get(conversation)
    if (ids.length === 0) return []
    const values = [head.ordinal, ids.map(idDigest), head.head]
    const rows = await this.#context.db.query<EventRow>(selectByIdsSql, values)
    const found = new Map(rows.map((row) => [row[1].toString(), toStoredEvent(row)]))
    return ids.map((id) => found.get(Buffer.from(id).toString()))
  }

  async *tail(
    conversation: string,
    after: number,
    signal: AbortSignal,
  ): AsyncGenerator<readonly StoredEvent[]> {
    const { heads, liveTails } = this.#context
    const { ordinal } = await heads.get(conversation)
    const liveTail = liveTails.acquire(ordinal)
    using waiter = new Waiter(signal)
    try {
      for (let position = Math.max(0, after); !signal.aborted && !this.#closing.signal.aborted; ) {
        const { version } = liveTail.signal
        try {
          const head = await heads.find(conversation)
          if (head?.ordinal !== ordinal) return
          if (head.head <= position) {
            await liveTail.signal.wait(version, waiter)
            continue
          }
          const shared = liveTail.batchAfter(position)
          const batch = shared ?? (await this.#readRange(head, position, head.head, batchBytes))
          position = batch.at(-1)?.position ?? position
          yield batch
          if (shared === undefined) await nextTurn()
        } catch (error) {
          // It was removed after it was found.
          if (error instanceof Problem && error.code === 'not_found') return
          if (!isStorageFailure(error)) throw error
          await pause(retryMs)
        }
      }
    } finally {
      liveTails.release(ordinal)
    }
  }

  /** Ends all tails. */
  close(): void {
    this.#closing.abort()
    this.#context.liveTails.notifyAll()
  }

  #planAppend(
    group: GroupPlan,
    conversation: string,
    events: readonly (EventDraft | ReceivedEvent)[],
    { after, record }: AppendOptions,
  ) {
    const { deliveries, liveTails, importLocks } = this.#context
    importLocks.assertFree(conversation)
    const head = group.find(conversation) ?? notFound(conversation)
    const { results, newEvents, extent } = group.planAppend(head.ordinal, head, events)
    if (newEvents.length > 0 || events.length === 0) assertEndsAt(head, after)
    if (!events.every(isReceivedEvent)) this.#warnAboutClock(head)
    const isNoChange = newEvents.length === 0 && (events.length > 0 || record === undefined)
    return {
      apply: () => {
        if (isNoChange) return
        group.insert(head.ordinal, newEvents)
        group.update(head, extent, record)
      },
      done: () => {
        this.#context.writer.metrics.events.inc(newEvents.length)
        const liveTail = liveTails.get(head.ordinal)
        if (liveTail !== undefined && newEvents.length > 0) {
          liveTail.push(newEvents.map(({ event }) => event))
          liveTail.signal.notify()
        }
        if (!isNoChange) deliveries.markChanged(conversation)
        return [...results]
      },
    }
  }

  #warnAboutClock({ ordinal, id, lastInstant = 0 }: LogHead): void {
    if (lastInstant - this.#context.now() < maxAheadMicros || this.#warnedOrdinals.has(ordinal)) return
    this.#warnedOrdinals.add(ordinal)
    const message = 'the newest event is in the future; events after it get later timestamps'
    this.#context.log('warn', message, { conversation: id })
  }

  /** Positions above `after` up to `last`, all of them. */
  async #readRange(head: LogHead, after: number, last: number, maxBytes: number): Promise<StoredEvent[]> {
    const events: StoredEvent[] = []
    let sizeBytes = 0
    while (after + events.length < last && sizeBytes < maxBytes) {
      const left = Math.min(maxBytes - sizeBytes, Number.MAX_SAFE_INTEGER)
      const values = [head.ordinal, after + events.length, last, left]
      const rows = await this.#context.db.query<EventRow>(selectRangeSql, values)
      for (const row of rows) {
        if (row[0] !== after + events.length + 1) break
        events.push(toStoredEvent(row))
        sizeBytes += row[3].length
      }
      if (rows.length > 0 && rows.at(-1)?.[0] === after + events.length) continue
      throw await this.#missing(head, after + events.length + 1)
    }
    return events
  }

  /** Throws a DamageError where an event is missing in a page of a log in order of time, without filters. */
  async #verifyDense(head: LogHead, query: EventQuery, rows: readonly EventRow[]): Promise<void> {
    const { kind, source, key, body, timestamp__gte, timestamp__lt, page_id, sort_order, limit } = query
    if (kind || source || key || body || !head.isInOrder) return
    const [step, end] = sort_order === 'TIMESTAMP_DESC' ? [-1, 1] : [1, head.head]
    const isFromStart = !page_id && (step > 0 ? timestamp__gte : timestamp__lt) === undefined
    const start = step > 0 ? 1 : head.head
    let expected = isFromStart ? start : (rows[0]?.[0] ?? start)
    for (const [position] of rows) {
      if (position !== expected) throw await this.#missing(head, expected)
      expected += step
    }
    const isToEnd = (step > 0 ? timestamp__lt : timestamp__gte) === undefined
    const isShort = rows.length <= limit && (rows.length > 0 || isFromStart)
    if (isToEnd && isShort && head.head > 0 && expected - step !== end)
      throw await this.#missing(head, expected)
  }

  async #verifyEnd(head: LogHead): Promise<void> {
    if (head.head === 0) return
    const rows = await this.#context.db.query(selectIdSql, [head.ordinal, head.head])
    if (rows.length === 0) throw await this.#missing(head, head.head)
  }

  /** The error for an event that is missing; `not_found` when the conversation was removed meanwhile. */
  async #missing({ id, ordinal }: LogHead, position: number): Promise<Problem> {
    const { heads, damage } = this.#context
    if ((await heads.find(id))?.ordinal !== ordinal) return conversationNotFound(id)
    const error = new DamageError(id, position, 'is missing')
    damage.add(error)
    return error
  }

  /** One more row than the page has. */
  async #readPage(head: LogHead, query: EventQuery): Promise<EventRow[]> {
    const { page_id: pageId, body } = query
    // A page mostly begins with the event that its id names: then one statement finds it and the page.
    if (pageId && !body) {
      const position = decodeEventPageId(pageId)
      const start: PageStart =
        position === undefined
          ? { lookup: 'sha256(id)', value: idDigest(pageId) }
          : { lookup: 'position', value: position }
      const rows = await this.#select({ ...this.#filter(head, query), start }, query)
      const [first] = rows.slice(0, 1).map(toStoredEvent)
      if (first !== undefined && isNamedBy(pageId, head, first)) return rows
    }
    return await this.#select(await this.#selection(head, query), query)
  }

  async #select(selection: Selection, { limit }: EventQuery): Promise<EventRow[]> {
    return this.#isEmpty(selection) ? [] : await selectEvents(this.#context.db, selection, limit + 1)
  }

  #filter(head: LogHead, query: Partial<EventQuery>): Selection {
    const { kind, source, key } = query
    const kindSources = this.#context.kindSources.matching(kind || undefined, source || undefined, key)
    return { head, query, kindSources }
  }

  async #selection(head: LogHead, query: Partial<EventQuery>): Promise<Selection> {
    const { page_id } = query
    const start = page_id ? await this.#findPageStart(head, page_id) : undefined
    return { ...this.#filter(head, query), start }
  }

  async #findPageStart(head: LogHead, text: string): Promise<Selection['start']> {
    const position = decodeEventPageId(text)
    if (position !== undefined && position <= head.head) {
      const values = [head.ordinal, position]
      const [row] = await this.#context.db.query<[Buffer, number, string]>(selectIdSql, values)
      if (row !== undefined) {
        const [id, instant, finer] = row
        const event = toStoredEvent([position, id, instant, id, finer])
        if (isPageIdOf(text, head.id, position, event.id)) return event
      }
    }
    const [event] = await this.get(head.id, [text])
    if (event === undefined) throw isPageIdIn(text, head.id) ? pageOfOtherHistory(head.head) : unknownPageId()
    return event
  }

  /** Only messages have a body. */
  #isEmpty({ kindSources, query }: Selection): boolean {
    if (kindSources?.length === 0) return true
    const { body, kind } = query
    if (!body || !kind) return false
    return !this.#context.kindSources.matching(kind, undefined)?.some((number) => number & 1)
  }
}

function isNamedBy(pageId: string, { id }: LogHead, event: StoredEvent): boolean {
  return event.id === pageId || isPageIdOf(pageId, id, event.position, event.id)
}

/** The stored ids that a plan of these events looks for. */
export function lookedUpIds(events: readonly (EventDraft | ReceivedEvent)[]): string[] {
  return events.flatMap((event) => {
    if (!isReceivedEvent(event)) return event.id === undefined ? [] : [event.id]
    return event.keepDuplicateId ? [event.id, duplicateId(event.id, event.bytes)] : [event.id]
  })
}

function assertEndsAt(head: LogHead, after: number | undefined): void {
  if (after === undefined || after === head.head) return
  throw new Problem('conflict', `The log ends at position ${head.head}, not at ${after}`)
}

function notFound(conversation: string): never {
  throw conversationNotFound(conversation)
}
