import { hash, randomUUID } from 'node:crypto'
import { type Instant, Problem } from '@slipway/protocol'
import {
  type EventDraft,
  isReceived,
  type PagedEvent,
  type ReceivedEvent,
  type StoredEvent,
} from '../../event-log/event-log.ts'
import { serialiseEvent } from '../../event-log/serialize-event.ts'
import { bufferOf, type Database } from '../database/database.ts'
import type { Facets } from './kind-source-index.ts'
import type { Extent } from './log-heads.ts'
import { positionsPerConversation, rowBase } from './schema.ts'

export type EventRow = readonly [row: number, id: string, instant: Instant, body: Uint8Array]

/** Events that are to be written, and what the caller is answered: those and the ones that stood there before. */
export interface Placed {
  readonly answers: readonly StoredEvent[]
  readonly fresh: readonly Fresh[]
  /** The log's extent with them. */
  readonly extent: Extent
}

interface Fresh {
  readonly event: StoredEvent
  readonly storedId: string
  readonly kind: string
  readonly source: string
  readonly key: unknown
}

const insert = 'INSERT INTO event (row, conversation, id, instant, facet, body) VALUES (?, ?, ?, ?, ?, ?)'
const byId = 'SELECT row, id, instant, body FROM event INDEXED BY event_id WHERE conversation = ? AND id = ?'
const bodyOf = 'SELECT body FROM event WHERE row = ?'
const placeOf = 'SELECT id, instant FROM event WHERE row = ?'
const range = 'SELECT row, id, instant, body FROM event WHERE row > ? AND row <= ? ORDER BY row'

/** The rows of events. */
export class Events {
  readonly #db: Database
  readonly #facets: Facets
  readonly #now: () => Instant

  constructor(db: Database, facets: Facets, now: () => Instant) {
    this.#db = db
    this.#facets = facets
    this.#now = now
  }

  /** What appending would give; nothing is written. Throws a Problem `conflict` for an id that other content has. */
  place(ordinal: number, extent: Extent, events: readonly (EventDraft | ReceivedEvent)[]): Placed {
    const placing = new Placing(extent, (id) => this.byId(ordinal, id), this.#now())
    return placing.place(events)
  }

  insert(ordinal: number, fresh: readonly Fresh[]): void {
    const base = rowBase(ordinal)
    const statement = this.#db.prepare(insert)
    for (const { event, storedId, kind, source, key } of fresh) {
      const facet = this.#facets.number(kind, source, key)
      statement.run(base + event.position, ordinal, storedId, event.instant, facet, event.bytes)
    }
  }

  /** By the id of its row, also above the head. */
  byId(ordinal: number, storedId: string): StoredEvent | undefined {
    const row = this.#db.row<EventRow>(byId, ordinal, storedId)
    return row && stored(row)
  }

  /** Where an event stands in time, and its id; its bytes are not read. */
  placeOf(ordinal: number, position: number): Pick<StoredEvent, 'id' | 'instant'> | undefined {
    const row = this.#db.row<[string, Instant]>(placeOf, rowBase(ordinal) + position)
    return row && { id: ownId(row[0]), instant: row[1] }
  }

  /** What a page sends of the events at some positions; those that are gone are left out. */
  paged(ordinal: number, positions: readonly number[]): PagedEvent[] {
    const base = rowBase(ordinal)
    return positions.flatMap((position) => {
      const row = this.#db.row<[Uint8Array]>(bodyOf, base + position)
      return row === undefined ? [] : { position, bytes: bufferOf(row[0]) }
    })
  }

  /** Positions above `after` up to `last`; stops when `maxBytes` are reached, at least one. */
  range(ordinal: number, after: number, last: number, maxBytes: number): StoredEvent[] {
    const base = rowBase(ordinal)
    const events: StoredEvent[] = []
    let sizeBytes = 0
    for (const row of this.#db.prepare(range).iterate(base + after, base + last)) {
      const event = stored(row as unknown as EventRow)
      events.push(event)
      sizeBytes += event.bytes.length
      if (sizeBytes >= maxBytes) break
    }
    return events
  }
}

function stored([row, storedId, instant, body]: EventRow): StoredEvent {
  return { position: row % positionsPerConversation, id: ownId(storedId), instant, bytes: bufferOf(body) }
}

/** Digits of the digest behind the id of a further event of the same id. */
const twinDigits = 16

function twinId(id: string, bytes: Buffer): string {
  return `${id}\0${hash('sha256', bytes).slice(0, twinDigits)}`
}

function ownId(storedId: string): string {
  const end = storedId.length - twinDigits - 1
  return end > 0 && storedId.charCodeAt(end) === 0 ? storedId.slice(0, end) : storedId
}

/** One placing of a list of events: positions and instants as they will be. */
class Placing {
  readonly #find: (storedId: string) => StoredEvent | undefined
  readonly #now: Instant
  readonly #fresh: Fresh[] = []
  readonly #byStoredId = new Map<string, StoredEvent>()
  #extent: Extent

  constructor(extent: Extent, find: (storedId: string) => StoredEvent | undefined, now: Instant) {
    this.#extent = extent
    this.#find = find
    this.#now = now
  }

  place(events: readonly (EventDraft | ReceivedEvent)[]): Placed {
    const answers = events.map((event) => (isReceived(event) ? this.#received(event) : this.#draft(event)))
    return { answers, fresh: this.#fresh, extent: this.#extent }
  }

  #draft(draft: EventDraft): StoredEvent {
    const { id = randomUUID(), kind, source, key } = draft
    const known = draft.id === undefined ? undefined : this.#known(id)
    if (known !== undefined) {
      if (!serialiseEvent(draft, id, known.instant).equals(known.bytes)) throw conflict(id)
      return known
    }
    const { lastInstant } = this.#extent
    const instant = lastInstant === undefined ? this.#now : Math.max(this.#now, lastInstant + 1)
    const bytes = serialiseEvent(draft, id, instant)
    return this.#add({ id, storedId: id, instant, kind, source, key, bytes })
  }

  #received(event: ReceivedEvent): StoredEvent {
    const { id, instant, kind, source, key, bytes } = event
    const first = this.#known(id)
    if (first === undefined) return this.#add({ id, storedId: id, instant, kind, source, key, bytes })
    if (first.bytes.equals(bytes)) return first
    if (event.keepTwin !== true) throw conflict(id)
    const storedId = twinId(id, bytes)
    return this.#known(storedId) ?? this.#add({ id, storedId, instant, kind, source, key, bytes })
  }

  #known(storedId: string): StoredEvent | undefined {
    return this.#byStoredId.get(storedId) ?? this.#find(storedId)
  }

  #add(made: Omit<Fresh, 'event'> & Omit<StoredEvent, 'position'>): StoredEvent {
    const { head, lastInstant, isInOrder } = this.#extent
    const position = head + 1
    if (position >= positionsPerConversation) throw new Problem('too_large', 'The conversation is full')
    const { id, storedId, instant, kind, source, key, bytes } = made
    const event = { position, id, instant, bytes }
    this.#fresh.push({ event, storedId, kind, source, key })
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
