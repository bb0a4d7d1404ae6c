import { hash, randomUUID } from 'node:crypto'
import { type Instant, type Moment, nextInstant } from '@slipway/protocol/instant'
import { Problem } from '@slipway/protocol/problem'
import { type EventDraft, isReceivedEvent, type ReceivedEvent, type StoredEvent } from './event-log.ts'
import { serializeEvent } from './serialize-event.ts'

/** Positions are below this. */
export const positionsPerConversation = 2 ** 28

/** How far the log of a conversation goes. */
export interface Extent {
  /** Position of the last event, 0 when there is none. */
  readonly head: number
  /** The greatest instant so far. */
  readonly lastInstant: Instant | undefined
  /**
   * Every instant is at or above its predecessor's, and none is finer, so that order of time is order of
   * position.
   */
  readonly isInOrder: boolean
  /** Some events have moments that are finer than instants. */
  readonly hasFiner: boolean
  /** Sum of the lengths of its events. */
  readonly bytes: number
}

export const emptyExtent: Extent = {
  head: 0,
  lastInstant: undefined,
  isInOrder: true,
  hasFiner: false,
  bytes: 0,
}

/** `results` has the new events and those that were stored already, in the order of the call. */
export interface AppendPlan {
  readonly results: readonly StoredEvent[]
  readonly newEvents: readonly NewEvent[]
  /** The log's extent with the new events. */
  readonly extent: Extent
}

/** `storedId` differs from the event's id when another event has that id. */
export interface NewEvent {
  readonly event: StoredEvent
  readonly storedId: string
  readonly kind: string
  readonly source: string
  readonly key?: unknown
}

type EventValues = Omit<NewEvent, 'event'> & Omit<StoredEvent, 'position'>

/** A further event with the same id is stored under the id, NUL and this many digits of a digest. */
const duplicateIdDigits = 16

/** The stored id of a further event with this id. */
export function duplicateId(id: string, bytes: Buffer): string {
  return `${id}\0${hash('sha256', bytes).slice(0, duplicateIdDigits)}`
}

/** The id of an event by its stored id. */
export function originalId(storedId: string): string {
  const end = storedId.length - duplicateIdDigits - 1
  return end > 0 && storedId.charCodeAt(end) === 0 ? storedId.slice(0, end) : storedId
}

/** Assigns positions and instants to the events of one call. Writes nothing. */
export class AppendPlanner {
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

  /** Throws a Problem `conflict` for an id that is stored with other content. */
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
    const instant = nextInstant(this.#now, this.#extent.lastInstant)
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

  #add({ id, storedId, instant, finer, kind, source, key, bytes }: EventValues): StoredEvent {
    const { head, lastInstant, isInOrder, hasFiner } = this.#extent
    const position = head + 1
    if (position >= positionsPerConversation) throw new Problem('too_large', 'The conversation is full')
    const event = newStoredEvent(position, id, { instant, finer }, bytes)
    this.#newEvents.push({ event, storedId, kind, source, key })
    this.#byStoredId.set(storedId, event)
    const isNext = lastInstant === undefined || instant >= lastInstant
    this.#extent = {
      head: position,
      lastInstant: isNext ? instant : lastInstant,
      isInOrder: isInOrder && isNext && !finer,
      hasFiner: hasFiner || Boolean(finer),
      bytes: this.#extent.bytes + bytes.length,
    }
    return event
  }
}

/** Without a member for what is finer where nothing is, as nearly always. */
export function newStoredEvent(
  position: number,
  id: string,
  { instant, finer }: Moment,
  bytes: Buffer,
): StoredEvent {
  return finer ? { position, id, instant, finer, bytes } : { position, id, instant, bytes }
}

function conflict(id: string): Problem {
  return new Problem('conflict', `Another event has the id ${id}`)
}
