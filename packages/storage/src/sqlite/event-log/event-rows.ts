import type { Instant, Moment } from '@slipway/protocol'
import {
  type AppendPlan,
  AppendPlanner,
  type Extent,
  type NewEvent,
  newStoredEvent,
  originalId,
  positionsPerConversation,
} from '../../event-log/append-planner.ts'
import { DamageError } from '../../event-log/damage.ts'
import type { EventDraft, ReceivedEvent, StoredEvent } from '../../event-log/event-log.ts'
import { readBody, storeBody } from '../blobs/blobs.ts'
import type { Database } from '../database/database.ts'
import { isDamaged } from '../database/storage-failure.ts'
import { eventChecksum } from './checksum.ts'
import type { KindSourceIndex } from './kind-source-index.ts'
import { rowBase } from './schema.ts'

export type EventRow = readonly [
  row: number,
  id: string,
  instant: Instant,
  body: Uint8Array,
  checksum: number | null,
  finer: string,
]

/** An `EventRow` with the length of its stored body in bytes instead of it. */
export type EventMeta = readonly [
  row: number,
  id: string,
  instant: Instant,
  bodyLength: number,
  checksum: number | null,
  finer: string,
]

/** The columns of an `EventRow`. */
export const eventColumns = 'row, id, instant, body, checksum, finer'

const insertSql =
  'INSERT INTO event (row, conversation, id, instant, facet, body, checksum, finer) VALUES (?, ?, ?, ?, ?, ?, ?, ?)'
const selectByIdSql = `SELECT ${eventColumns} FROM event INDEXED BY event_id WHERE conversation = ? AND id = ?`
const selectRowSql = `SELECT ${eventColumns} FROM event WHERE row = ?`
const selectIdAndMomentSql = 'SELECT id, instant, finer FROM event WHERE row = ?'
const selectRangeSql = `SELECT ${eventColumns} FROM event WHERE row > ? AND row <= ? ORDER BY row`

const selectEndSql = 'SELECT row, instant FROM event WHERE row >= ? AND row < ? ORDER BY row LIMIT 2'
const selectRowInstantSql = 'SELECT row, instant FROM event WHERE row = ?'
const selectLeftoverSql = 'SELECT 1 FROM leftover WHERE ordinal = ?'
const selectConversationSql = 'SELECT id FROM conversation WHERE ordinal = ?'

/** The rows of events. Every event that is read is verified. */
export class EventRows {
  readonly #db: Database
  readonly #kindSources: KindSourceIndex
  readonly #now: () => Instant
  readonly #onDamage: (error: DamageError) => void
  readonly #onFirstEvent: (ordinal: number) => void

  constructor(
    db: Database,
    kindSources: KindSourceIndex,
    now: () => Instant,
    onDamage: (error: DamageError) => void = () => {},
    onFirstEvent: (ordinal: number) => void = () => {},
  ) {
    this.#db = db
    this.#kindSources = kindSources
    this.#now = now
    this.#onDamage = onDamage
    this.#onFirstEvent = onFirstEvent
  }

  /** Writes nothing. Throws a Problem `conflict` for an id that is stored with other content. */
  planAppend(ordinal: number, extent: Extent, events: readonly (EventDraft | ReceivedEvent)[]): AppendPlan {
    const planner = new AppendPlanner(extent, (id) => this.byId(ordinal, id), this.#now())
    return planner.plan(events)
  }

  insert(ordinal: number, newEvents: readonly NewEvent[]): void {
    const base = rowBase(ordinal)
    if (newEvents[0]?.event.position === 1) this.#onFirstEvent(ordinal)
    const statement = this.#db.prepare(insertSql)
    for (const { event, storedId, kind, source, key } of newEvents) {
      const kindSource = this.#kindSources.getNumber(kind, source, key)
      const { position, instant, finer = '', bytes } = event
      const row = base + position
      const checksum = eventChecksum(row, storedId, event, bytes)
      const body = storeBody(this.#db, row, bytes)
      statement.run(row, ordinal, storedId, instant, kindSource, body, checksum, finer)
    }
  }

  /** By the stored id, also above the head. */
  byId(ordinal: number, storedId: string): StoredEvent | undefined {
    return this.named(ordinal, () => {
      const row = this.#db.get<EventRow>(selectByIdSql, ordinal, storedId)
      return row && this.verify(row)
    })
  }

  /** Errors of damaged pages name the conversation: they are DamageErrors. */
  named<T>(ordinal: number, work: () => T, part: () => DamageError['part'] = () => 'log'): T {
    try {
      return work()
    } catch (error) {
      throw this.#toDamage(error, ordinal, part())
    }
  }

  #toDamage(error: unknown, ordinal: number, part: DamageError['part']): unknown {
    if (!isDamaged(error) || error instanceof DamageError) return error
    return part === 'log'
      ? this.reportPage(ordinal, error)
      : this.#report(ordinal, part, 'cannot be read', error)
  }

  reportPage(ordinal: number, cause: unknown): DamageError {
    return this.#report(ordinal, 'log', 'has a page that cannot be read', cause)
  }

  /** Does not read the bytes. */
  getIdAndMoment(ordinal: number, position: number): (Moment & { readonly id: string }) | undefined {
    const find = () =>
      this.#db.get<[string, Instant, string]>(selectIdAndMomentSql, rowBase(ordinal) + position)
    const row = this.named(ordinal, find, () => position)
    return row && { id: originalId(row[0]), instant: row[1], finer: row[2] }
  }

  /** The events at these positions, without removed ones. */
  getPaged(ordinal: number, positions: readonly number[]): StoredEvent[] {
    const base = rowBase(ordinal)
    return positions.flatMap((position) => {
      const find = () => this.#db.get<EventRow>(selectRowSql, base + position)
      const row = this.named(ordinal, find, () => position)
      return row === undefined ? [] : this.verify(row)
    })
  }

  /**
   * Positions above `after` up to `last`, all of them; stops after `maxBytes`, with at least one event.
   * Throws a DamageError for a missing event.
   */
  readRange(ordinal: number, after: number, last: number, maxBytes: number): StoredEvent[] {
    const base = rowBase(ordinal)
    const events: StoredEvent[] = []
    let sizeBytes = 0
    const read = () => {
      for (const row of this.#db.rows<EventRow>(selectRangeSql, base + after, base + last)) {
        const event = this.verify(row)
        if (event.position !== after + events.length + 1) break
        events.push(event)
        sizeBytes += event.bytes.length
        // The page behind the last one may be damaged.
        if (sizeBytes >= maxBytes || after + events.length === last) return
      }
    }
    this.named(ordinal, read, () => after + events.length + 1)
    if (sizeBytes >= maxBytes) return events
    if (after + events.length < last) this.#fail(base + after + events.length + 1, 'is missing')
    return events
  }

  /** Throws a DamageError unless these are the first rows of a range, in its order, none left out. */
  verifyDense(
    rows: readonly (EventRow | EventMeta)[],
    range: { readonly low: number; readonly high: number } | undefined,
    { limit, isDescending }: { readonly limit: number; readonly isDescending: boolean },
  ): void {
    if (range === undefined) return
    const { low, high } = range
    const order = isDescending ? -1 : 1
    for (let index = 0; index < Math.min(limit, high - low + 1); index++) {
      const row = isDescending ? high - index : low + index
      if (rows[index]?.[0] !== row) this.#fail(row, 'is missing')
      const step = (rows[index]?.[2] ?? 0) - (rows[index - 1]?.[2] ?? rows[index]?.[2] ?? 0)
      if (step * order < 0) this.#fail(row, 'is not in the order of time')
    }
  }

  /** Whether an event is what was written. Events of versions before checksums match. */
  matchesChecksum(
    [row, storedId, instant, , checksum, finer]: EventRow | EventMeta,
    body: Uint8Array,
  ): boolean {
    return checksum === null || checksum === eventChecksum(row, storedId, { instant, finer }, body)
  }

  /** The event of a row. Throws a DamageError when it is not what was written. */
  verify(eventRow: EventRow): StoredEvent {
    const [row, storedId, instant, body, , finer] = eventRow
    const bytes = this.#readBody(row, body)
    if (!this.matchesChecksum(eventRow, bytes)) this.#fail(row, 'does not match its checksum')
    const position = row % positionsPerConversation
    return newStoredEvent(position, originalId(storedId), { instant, finer }, bytes)
  }

  #readBody(row: number, body: Uint8Array): Buffer {
    try {
      return readBody(this.#db, body)
    } catch (error) {
      const ordinal = Math.floor(row / positionsPerConversation)
      throw this.#toDamage(error, ordinal, row % positionsPerConversation)
    }
  }

  /**
   * Throws a DamageError unless the log of a conversation ends at its head, with the rows of an import above
   * it. The instant of its last event is passed where it is known.
   */
  verifyEnd(ordinal: number, head: number, instant?: Instant): void {
    const base = rowBase(ordinal)
    const rows = this.named(
      ordinal,
      () => this.#selectEnd(base, head),
      () => Math.max(head, 1),
    )
    if (head > 0 && rows[0]?.[0] !== base + head) this.#fail(base + head, 'is missing')
    const hasMore = rows.length > (head > 0 ? 1 : 0)
    if (hasMore && this.#db.get(selectLeftoverSql, ordinal) === undefined)
      this.#fail(base + head + 1, 'is behind the end of the log')
    if (head > 0 && instant !== undefined && rows[0]?.[1] !== instant)
      this.#fail(base + head, 'is not the one that the log ends with')
  }

  #selectEnd(base: number, head: number): (readonly [row: number, instant: Instant])[] {
    try {
      return this.#db.all<[number, Instant]>(
        selectEndSql,
        base + Math.max(head, 1),
        base + positionsPerConversation,
      )
    } catch (error) {
      // The page behind the end is damaged: whether more follows is not known.
      const row = isDamaged(error) && this.#db.get<[number, Instant]>(selectRowInstantSql, base + head)
      if (!row) throw error
      return [row]
    }
  }

  #fail(row: number, reason: string): never {
    throw this.#report(Math.floor(row / positionsPerConversation), row % positionsPerConversation, reason)
  }

  #report(ordinal: number, part: DamageError['part'], reason: string, cause?: unknown): DamageError {
    const error = new DamageError(this.#findId(ordinal), part, reason, cause)
    this.#onDamage(error)
    return error
  }

  #findId(ordinal: number): string {
    try {
      const [id] = this.#db.get<[string]>(selectConversationSql, ordinal) ?? []
      if (id !== undefined) return id
    } catch {
      // Its record is damaged too.
    }
    return `number ${ordinal}`
  }
}
