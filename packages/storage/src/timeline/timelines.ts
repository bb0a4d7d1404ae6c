import { setImmediate as nextTurn } from 'node:timers/promises'
import { type EventFilter, formatInstant, type Instant } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import type { ConversationRecord } from '../conversations/conversation-records.ts'
import type { EventLog, StoredEvent } from '../event-log/event-log.ts'
import { decodeEventPageId } from '../event-log/page-id.ts'
import { type Bucket, TimelineChunk } from './timeline-chunk.ts'

const chunkEvents = 4_096
/** 18 MB for two million events. */
const maxChunks = 512
const eventsPerRead = 128
const bytesPerRead = 512 * 1024

/** Most time that a request reads events, unless given. */
const defaultBudgetMs = 40

export interface FindQuery extends EventFilter {
  readonly from: number
  readonly direction: 'next' | 'previous'
  readonly tool?: string | undefined
  readonly failed: boolean
  readonly limit: number
}

type LogRecord = Pick<ConversationRecord, 'id' | 'head' | 'created_at'>

/**
 * Counts and filters by position over logs of any length. What was read of an event stays in memory in chunks
 * of positions, because events never change; a request reads for a bounded time and says how far it came.
 */
export class Timelines {
  readonly #log: Pick<EventLog, 'read' | 'search'>
  readonly #budgetMs: number
  readonly #chunks = new LruMap<string, TimelineChunk>({ max: maxChunks })

  constructor(log: Pick<EventLog, 'read' | 'search'>, { budgetMs = defaultBudgetMs } = {}) {
    this.#log = log
    this.#budgetMs = budgetMs
  }

  /** Counts in at most `buckets` buckets of one size, as far as the log was read. */
  async overview(record: LogRecord, buckets: number) {
    const deadline = performance.now() + this.#budgetMs
    const size = Math.max(1, Math.ceil(record.head / buckets))
    const result: (Bucket & { readonly first: number })[] = []
    let covered = 0
    let previous: Instant | undefined
    while (covered < record.head) {
      const index = Math.floor(covered / chunkEvents)
      const chunk = await this.#fill(record, index, deadline)
      const end = Math.min(index * chunkEvents + chunk.length, record.head)
      while (covered < end) {
        const number = Math.floor(covered / size)
        const bucket = result[number] ?? newBucket(covered + 1)
        result[number] = bucket
        const to = Math.min(end, (number + 1) * size)
        previous = chunk.count(bucket, covered - index * chunkEvents, to - index * chunkEvents, previous)
        covered = to
      }
      if (end < Math.min((index + 1) * chunkEvents, record.head)) break
      // A log that was read before is counted in one go, and other requests get their turn.
      if (index % 32 === 31) await nextTurn()
    }
    const toLast = (first: number) => Math.min(first + size - 1, covered)
    return {
      head: record.head,
      covered,
      bucket_size: size,
      buckets: result.map((bucket) => toJson(bucket, toLast(bucket.first))),
    }
  }

  /** Positions of matching events from one on, and where to continue; null when nothing more matches. */
  async find(
    record: LogRecord,
    query: FindQuery,
  ): Promise<{ positions: number[]; next_from: number | null }> {
    const isNext = query.direction === 'next'
    if (record.head === 0 || (isNext && query.from > record.head)) return { positions: [], next_from: null }
    const from = Math.min(query.from, record.head)
    if (query.body) return query.tool || query.failed ? nothing : await this.#findText(record, from, query)
    const deadline = performance.now() + this.#budgetMs
    const positions: number[] = []
    const step = isNext ? 1 : -1
    let position = from
    while (position >= 1 && position <= record.head) {
      const index = Math.floor((position - 1) / chunkEvents)
      const start = index * chunkEvents + 1
      const chunk = await this.#fill(record, index, deadline)
      const isComplete = chunk.length >= Math.min(chunkEvents, record.head - start + 1)
      // Backwards, the end of a chunk comes first, so it has to be complete.
      if (!isComplete && (!isNext || position - start >= chunk.length))
        return { positions, next_from: position }
      const matches = chunk.matcher(query)
      for (
        ;
        position >= start && position < start + chunk.length && position <= record.head;
        position += step
      ) {
        if (!matches(position - start)) continue
        if (positions.length === query.limit) return { positions, next_from: position }
        positions.push(position)
      }
      if (!isComplete) return { positions, next_from: position }
    }
    return { positions, next_from: null }
  }

  /** In order of time, which is the order of positions in a log that no import has mixed. */
  async #findText({ id }: LogRecord, from: number, query: FindQuery) {
    const [first] = await this.#log.read(id, from - 1, 1)
    const { kind, source, body, timestamp__gte, timestamp__lt, limit, direction } = query
    const { items, next_page_id } = await this.#log.search(id, {
      ...{ kind, source, body, timestamp__gte, timestamp__lt, limit, page_id: first?.id },
      sort_order: direction === 'next' ? 'TIMESTAMP' : 'TIMESTAMP_DESC',
    })
    const next_from = next_page_id === null ? null : (decodeEventPageId(next_page_id) ?? null)
    return { positions: items.map(({ position }) => position), next_from }
  }

  /**
   * The chunk, read further until it is complete or the time is up; every request that needs one does a read.
   */
  async #fill({ id, head, created_at }: LogRecord, index: number, deadline: number): Promise<TimelineChunk> {
    const key = `${id}/${created_at}/${index}`
    let chunk = this.#chunks.get(key)
    if (chunk === undefined) {
      chunk = new TimelineChunk(chunkEvents)
      this.#chunks.set(key, chunk)
    }
    const start = index * chunkEvents
    const end = Math.min(start + chunkEvents, head)
    for (
      let isFirst = true;
      start + chunk.length < end && (isFirst || performance.now() < deadline);
      isFirst = false
    ) {
      const after = start + chunk.length
      const events: StoredEvent[] = await this.#log.read(
        id,
        after,
        Math.min(eventsPerRead, end - after),
        bytesPerRead,
      )
      // Another request may have read them meanwhile.
      for (const event of events) if (event.position === start + chunk.length + 1) chunk.push(event)
      await nextTurn()
    }
    return chunk
  }
}

const nothing = { positions: [], next_from: null }

function newBucket(first: number) {
  return { first, started: Infinity, ended: -Infinity, kinds: new Map<string, number>(), failed: 0, gap: 0 }
}

function toJson(
  { first, started, ended, kinds, failed, gap }: Bucket & { readonly first: number },
  last: number,
) {
  return {
    first,
    last,
    started_at: formatInstant(started),
    ended_at: formatInstant(ended),
    kinds: Object.fromEntries(kinds),
    failed,
    gap_seconds: gap / 1_000_000,
  }
}
