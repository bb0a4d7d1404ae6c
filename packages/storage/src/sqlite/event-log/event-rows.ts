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
import { type Database, toBuffer } from '../database/database.ts'
import type { Extent } from './conversation-row.ts'
import type { KindSourceIndex } from './kind-source-index.ts'
import { positionsPerConversation, rowBase } from './schema.ts'

export type EventRow = readonly [row: number, id: string, instant: Instant, body: Uint8Array]

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

const insertSql = 'INSERT INTO event (row, conversation, id, instant, facet, body) VALUES (?, ?, ?, ?, ?, ?)'
const selectByIdSql =
  'SELECT row, id, instant, body FROM event INDEXED BY event_id WHERE conversation = ? AND id = ?'
const selectBodySql = 'SELECT body FROM event WHERE row = ?'
const selectIdAndInstantSql = 'SELECT id, instant FROM event WHERE row = ?'
const selectRangeSql = 'SELECT row, id, instant, body FROM event WHERE row > ? AND row <= ? ORDER BY row'

/** The rows of events. */
export class EventRows {
  readonly #db: Database
  readonly #kindSources: KindSourceIndex
  readonly #now: () => Instant

  constructor(db: Database, kindSources: KindSourceIndex, now: () => Instant) {
    this.#db = db
    this.#kindSources = kindSources
    this.#now = now
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
      statement.run(base + event.position, ordinal, storedId, event.instant, kindSource, event.bytes)
    }
  }

  /** By the stored id, also above the head. */
  byId(ordinal: number, storedId: string): StoredEvent | undefined {
    const row = this.#db.get<EventRow>(selectByIdSql, ordinal, storedId)
    return row && toStoredEvent(row)
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
      const row = this.#db.get<[Uint8Array]>(selectBodySql, base + position)
      return row === undefined ? [] : { position, bytes: toBuffer(row[0]) }
    })
  }

  /** Positions above `after` up to `last`; stops after `maxBytes`, with at least one event. */
  readRange(ordinal: number, after: number, last: number, maxBytes: number): StoredEvent[] {
    const base = rowBase(ordinal)
    const events: StoredEvent[] = []
    let sizeBytes = 0
    for (const row of this.#db.prepare(selectRangeSql).iterate(base + after, base + last)) {
      const event = toStoredEvent(row as unknown as EventRow)
      events.push(event)
      sizeBytes += event.bytes.length
      if (sizeBytes >= maxBytes) break
    }
    return events
  }
}

function toStoredEvent([row, storedId, instant, body]: EventRow): StoredEvent {
  return {
    position: row % positionsPerConversation,
    id: originalId(storedId),
    instant,
    bytes: toBuffer(body),
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
    }
    return event
  }
}

function conflict(id: string): Problem {
  return new Problem('conflict', `Another event has the id ${id}`)
}
