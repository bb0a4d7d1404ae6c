import { compareMoments, type EventFilter, type Instant } from '@slipway/protocol'
import type { StoredEvent } from '../event-log/event-log.ts'
import { kindSpellings } from '../event-log/kind-source-numbers.ts'
import { type TimelineEntry, timelineEntry } from './timeline-entry.ts'

/** Counts of consecutive events. */
export interface Bucket {
  started: Instant
  ended: Instant
  readonly kinds: Map<string, number>
  failed: number
  /** The longest time between two events. */
  gap: Instant
}

/** Entries of consecutive positions. Equal entries are one object. */
export class TimelineChunk {
  readonly #instants: Float64Array
  /** What is finer than the instants, of the few events that have it, by index. */
  readonly #finer = new Map<number, string>()
  readonly #numbers: Uint16Array
  readonly #entries: TimelineEntry[] = []
  readonly #numberOf = new Map<string, number>()
  #length = 0

  constructor(size: number) {
    this.#instants = new Float64Array(size)
    this.#numbers = new Uint16Array(size)
  }

  get length(): number {
    return this.#length
  }

  push(event: StoredEvent): void {
    const entry = timelineEntry(event)
    const key = JSON.stringify(Object.values(entry))
    let number = this.#numberOf.get(key)
    if (number === undefined) {
      number = this.#entries.push(entry) - 1
      this.#numberOf.set(key, number)
    }
    this.#instants[this.#length] = event.instant
    if (event.finer !== undefined) this.#finer.set(this.#length, event.finer)
    this.#numbers[this.#length++] = number
  }

  /** Counts from an index to before another into a bucket; `previous` is the instant of the event before. */
  count(bucket: Bucket, from: number, to: number, previous: Instant | undefined): Instant | undefined {
    const counts = new Uint32Array(this.#entries.length)
    let last = previous
    for (let at = from; at < to; at++) {
      const instant = this.#instants[at] ?? 0
      if (instant < bucket.started) bucket.started = instant
      if (instant > bucket.ended) bucket.ended = instant
      if (last !== undefined && instant - last > bucket.gap) bucket.gap = instant - last
      last = instant
      const number = this.#numbers[at] ?? 0
      counts[number] = (counts[number] ?? 0) + 1
    }
    for (const [number, { kind, isFailed }] of this.#entries.entries()) {
      const added = counts[number] ?? 0
      if (added === 0) continue
      bucket.kinds.set(kind, (bucket.kinds.get(kind) ?? 0) + added)
      if (isFailed) bucket.failed += added
    }
    return last
  }

  /** Whether the entry at an index matches. */
  matcher(query: EventFilter & { readonly tool?: string | undefined; readonly failed: boolean }) {
    const { kind, source, tool, failed, timestamp__gte: from, timestamp__lt: before } = query
    const kinds = kind ? kindSpellings(kind) : undefined
    const isMatch = this.#entries.map(
      (entry) =>
        (kinds === undefined || kinds.includes(entry.kind)) &&
        (!source || entry.source === source) &&
        (!tool || entry.tool === tool) &&
        (!failed || entry.isFailed),
    )
    return (at: number): boolean => {
      if (isMatch[this.#numbers[at] ?? 0] !== true) return false
      const moment = { instant: this.#instants[at] ?? 0, finer: this.#finer.get(at) }
      const isFrom = from === undefined || compareMoments(moment, from) >= 0
      return isFrom && (before === undefined || compareMoments(moment, before) < 0)
    }
  }
}
