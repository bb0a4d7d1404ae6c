import { hash, randomUUID } from 'node:crypto'
import { type Instant, Problem } from '@slipway/protocol'
import {
  type EventDraft,
  isReceivedEvent,
  type PagedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from '../../event-log/event-log.ts'
import { serializeEvent } from '../../event-log/serialize-event.ts'
import { DamageError } from '../database/damage.ts'
import { type Database, toBuffer } from '../database/database.ts'
import { eventChecksum } from './checksum.ts'
import type { Extent } from './conversation-row.ts'
import type { KindSourceIndex } from './kind-source-index.ts'
import { positionsPerConversation, rowBase } from './schema.ts'

export type EventRow = readonly [
  row: number,
  id: string,
  instant: Instant,
  body: Uint8Array,
  checksum: number | null,
]

/** The columns of an `EventRow`. */
export const eventColumns = 'row, id, instant, body, checksum'

/** `results` has the new events and those that were stored already, in the order of the call. */
export interface AppendPlan {
  readonly results: readonly StoredEvent[]
  readonly newEvents: readonly NewEvent[]
  /** The log's extent with the new events. */
  readonly extent: Extent
}

interface NewEvent {
  readonly event: StoredEvent
  readonly storedId: string
  readonly kind: string
  readonly source: string
  readonly key?: unknown
}

type EventValues = Omit<NewEvent, 'event'> & Omit<StoredEvent, 'position'>

const insertSql =
  'INSERT INTO event (row, conversation, id, instant, facet, body, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)'
const selectByIdSql = `SELECT ${eventColumns} FROM event INDEXED BY event_id WHERE conversation = ? AND id = ?`
const selectRowSql = `SELECT ${eventColumns} FROM event WHERE row = ?`
const selectIdAndInstantSql = 'SELECT id, instant FROM event WHERE row = ?'
const selectRangeSql = `SELECT ${eventColumns} FROM event WHERE row > ? AND row <= ? ORDER BY row`

const selectEndSql = 'SELECT row FROM event WHERE row >= ? AND row < ? ORDER BY row LIMIT 2'
const selectLeftoverSql = 'SELECT 1 FROM leftover WHERE ordinal = ?'
const selectConversationSql = 'SELECT id FROM conversation WHERE ordinal = ?'

/** The rows of events. Every event that is read is verified. */
export class EventRows {
  readonly #db: Database
  readonly #kindSources: KindSourceIndex
  readonly #now: () => Instant
  readonly #onDamage: (error: DamageError) => void

  constructor(
    db: Database,
    kindSources: KindSourceIndex,
    now: () => Instant,
    onDamage: (error: DamageError) => void = () => {},
  ) {
    this.#db = db
    this.#kindSources = kindSources
    this.#now = now
    this.#onDamage = onDamage
  }

  /** Writes nothing. Throws a Problem `conflict` for an id that is stored with other content. */
  planAppend(ordinal: number, extent: Extent, events: readonly (EventDraft | ReceivedEvent)[]): AppendPlan {
    const planner = new AppendPlanner(extent, (id) => this.byId(ordinal, id), this.#now())
    return planner.plan(events)
  }

  insert(ordinal: number, newEvents: readonly NewEvent[]): void {
    const base = rowBase(ordinal)
    const statement = this.#db.prepare(insertSql)
    for (const { event, storedId, kind, source, key } of newEvents) {
      const kindSource = this.#kindSources.getNumber(kind, source, key)
      const { position, instant, bytes } = event
      const row = base + position
      const checksum = eventChecksum(row, storedId, instant, bytes)
      statement.run(row, ordinal, storedId, instant, kindSource, bytes, checksum)
    }
  }

  /** By the stored id, also above the head. */
  byId(ordinal: number, storedId: string): StoredEvent | undefined {
    const row = this.#db.get<EventRow>(selectByIdSql, ordinal, storedId)
    return row && this.verify(row)
  }

  /** Does not read the bytes. */
  getIdAndInstant(ordinal: number, position: number): Pick<StoredEvent, 'id' | 'instant'> | undefined {
    const row = this.#db.get<[string, Instant]>(selectIdAndInstantSql, rowBase(ordinal) + position)
    return row && { id: originalId(row[0]), instant: row[1] }
  }

  /** The events at these positions, without removed ones. */
  getPaged(ordinal: number, positions: readonly number[]): PagedEvent[] {
    const base = rowBase(ordinal)
    return positions.flatMap((position) => {
      const row = this.#db.get<EventRow>(selectRowSql, base + position)
      return row === undefined ? [] : this.verify(row)
    })
  }

  /**
   * Positions above `after` up to `last`, all of them; stops after `maxBytes`, with at least one event. Throws a
   * DamageError for a missing event.
   */
  readRange(ordinal: number, after: number, last: number, maxBytes: number): StoredEvent[] {
    const base = rowBase(ordinal)
    const events: StoredEvent[] = []
    let sizeBytes = 0
    for (const row of this.#db.rows<EventRow>(selectRangeSql, base + after, base + last)) {
      const event = this.verify(row)
      if (event.position !== after + events.length + 1) break
      events.push(event)
      sizeBytes += event.bytes.length
      if (sizeBytes >= maxBytes) return events
    }
    if (after + events.length < last) this.#fail(base + after + events.length + 1, 'is missing')
    return events
  }

  /** Throws a DamageError unless these are the first rows of a range, in its order, none left out. */
  verifyDense(
    rows: readonly EventRow[],
    range: { readonly low: number; readonly high: number } | undefined,
    { limit, isDescending }: { readonly limit: number; readonly isDescending: boolean },
  ): void {
    if (range === undefined) return
    const { low, high } = range
    for (let index = 0; index < Math.min(limit, high - low + 1); index++) {
      const row = isDescending ? high - index : low + index
      if (rows[index]?.[0] !== row) this.#fail(row, 'is missing')
    }
  }

  /** The event of a row. Throws a DamageError when it is not what was written. */
  verify([row, storedId, instant, body, checksum]: EventRow): StoredEvent {
    if (checksum !== null && checksum !== eventChecksum(row, storedId, instant, body))
      this.#fail(row, 'does not match its checksum')
    return {
      position: row % positionsPerConversation,
      id: originalId(storedId),
      instant,
      bytes: toBuffer(body),
    }
  }

  /** Throws a DamageError unless the log of a conversation ends at its head, with the rows of an import above it. */
  verifyEnd(ordinal: number, head: number): void {
    const base = rowBase(ordinal)
    const rows = this.#db.all<[number]>(
      selectEndSql,
      base + Math.max(head, 1),
      base + positionsPerConversation,
    )
    if (head > 0 && rows[0]?.[0] !== base + head) this.#fail(base + head, 'is missing')
    if (rows.length <= (head > 0 ? 1 : 0)) return
    if (this.#db.get(selectLeftoverSql, ordinal) === undefined)
      this.#fail(base + head + 1, 'is behind the end of the log')
  }

  #fail(row: number, reason: string): never {
    const ordinal = Math.floor(row / positionsPerConversation)
    const [id = `number ${ordinal}`] = this.#db.get<[string]>(selectConversationSql, ordinal) ?? []
    const error = new DamageError(id, row % positionsPerConversation, reason)
    this.#onDamage(error)
    throw error
  }
}

/** A further event with the same id is stored under the id, NUL and this many digits of a digest. */
const duplicateIdDigits = 16

function duplicateId(id: string, bytes: Buffer): string {
  return `${id}\0${hash('sha256', bytes).slice(0, duplicateIdDigits)}`
}

function originalId(storedId: string): string {
  const end = storedId.length - duplicateIdDigits - 1
  return end > 0 && storedId.charCodeAt(end) === 0 ? storedId.slice(0, end) : storedId
}

/** Assigns positions and instants to the events of one call. */
class AppendPlanner {
  readonly #find: (storedId: string) => StoredEvent | undefined
  readonly #now: Instant
  readonly #newEvents: NewEvent[] = []
  readonly #byStoredId = new Map<string, StoredEvent>()
  #extent: Extent

  constructor(extent: Extent, find: (storedId: string) => StoredEvent | undefined, now: Instant) {
    this.#extent = extent
    this.#find = find
    this.#now = now
  }

  plan(events: readonly (EventDraft | ReceivedEvent)[]): AppendPlan {
    const results = events.map((event) =>
      isReceivedEvent(event) ? this.#planReceived(event) : this.#planDraft(event),
    )
    return { results, newEvents: this.#newEvents, extent: this.#extent }
  }

  #planDraft(draft: EventDraft): StoredEvent {
    const { id = randomUUID(), kind, source, key } = draft
    const existing = draft.id === undefined ? undefined : this.#findExisting(id)
    if (existing !== undefined) {
      if (!serializeEvent(draft, id, existing.instant).equals(existing.bytes)) throw conflict(id)
      return existing
    }
    const { lastInstant } = this.#extent
    const instant = lastInstant === undefined ? this.#now : Math.max(this.#now, lastInstant + 1)
    const bytes = serializeEvent(draft, id, instant)
    return this.#add({ id, storedId: id, instant, kind, source, key, bytes })
  }

  #planReceived(event: ReceivedEvent): StoredEvent {
    const { id, bytes, keepDuplicateId } = event
    const existing = this.#findExisting(id)
    if (existing === undefined) return this.#add({ ...event, storedId: id })
    if (existing.bytes.equals(bytes)) return existing
    if (keepDuplicateId !== true) throw conflict(id)
    const storedId = duplicateId(id, bytes)
    return this.#findExisting(storedId) ?? this.#add({ ...event, storedId })
  }

  #findExisting(storedId: string): StoredEvent | undefined {
    return this.#byStoredId.get(storedId) ?? this.#find(storedId)
  }

  #add({ id, storedId, instant, kind, source, key, bytes }: EventValues): StoredEvent {
    const { head, lastInstant, isInOrder } = this.#extent
    const position = head + 1
    if (position >= positionsPerConversation) throw new Problem('too_large', 'The conversation is full')
    const event = { position, id, instant, bytes }
    this.#newEvents.push({ event, storedId, kind, source, key })
    this.#byStoredId.set(storedId, event)
    const isNext = lastInstant === undefined || instant >= lastInstant
    this.#extent = {
      head: position,
      lastInstant: isNext ? instant : lastInstant,
      isInOrder: isInOrder && isNext,
      bytes: this.#extent.bytes + bytes.length,
    }
    return event
  }
}

function conflict(id: string): Problem {
  return new Problem('conflict', `Another event has the id ${id}`)
}
