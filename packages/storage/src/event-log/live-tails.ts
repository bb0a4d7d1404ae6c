import { Signal } from '@slipway/shared/async'
import type { StoredEvent } from './event-log.ts'

const maxRecentEvents = 512
const maxRecentBytes = 1024 * 1024
/** A batch of a tail ends when it reaches this. */
export const batchBytes = 256 * 1024

/** A conversation with tails: its signal, and its newest events, which the readers share. */
export class LiveTail {
  readonly signal = new Signal()
  #recentEvents: StoredEvent[] = []
  #recentBytes = 0
  #lastBatch:
    | { readonly after: number; readonly end: number; readonly events: readonly StoredEvent[] }
    | undefined

  /** Call it when the events are durable. */
  push(events: readonly StoredEvent[]): void {
    const [first] = events
    if (first === undefined) return
    if (this.#recentEvents.at(-1)?.position !== first.position - 1) this.reset()
    for (const event of events) {
      this.#recentEvents.push(event)
      this.#recentBytes += event.bytes.length
    }
    let drop = 0
    while (this.#recentBytes > maxRecentBytes || this.#recentEvents.length - drop > maxRecentEvents) {
      this.#recentBytes -= this.#recentEvents[drop]?.bytes.length ?? 0
      drop += 1
    }
    if (drop > 0) this.#recentEvents.splice(0, drop)
  }

  /** The head has moved by something else than `push`. */
  reset(): void {
    this.#recentEvents = []
    this.#recentBytes = 0
    this.#lastBatch = undefined
  }

  /** The batch after a position, undefined when it is not in memory. Equal calls return the same array. */
  batchAfter(position: number): readonly StoredEvent[] | undefined {
    const [first] = this.#recentEvents
    const end = this.#recentEvents.at(-1)?.position ?? 0
    if (first === undefined || position + 1 < first.position || position >= end) return undefined
    const last = this.#lastBatch
    if (last?.after === position && last.end === end) return last.events
    const events: StoredEvent[] = []
    let sizeBytes = 0
    for (
      let i = position + 1 - first.position;
      i < this.#recentEvents.length && sizeBytes < batchBytes;
      i++
    ) {
      const event = this.#recentEvents[i]
      if (event === undefined) break
      events.push(event)
      sizeBytes += event.bytes.length
    }
    this.#lastBatch = { after: position, end, events }
    return events
  }
}

/** Conversations with tails, by ordinal. */
export class LiveTails {
  readonly #tails = new Map<number, { readonly live: LiveTail; readerCount: number }>()

  get(ordinal: number): LiveTail | undefined {
    return this.#tails.get(ordinal)?.live
  }

  acquire(ordinal: number): LiveTail {
    const entry = this.#tails.get(ordinal) ?? { live: new LiveTail(), readerCount: 0 }
    entry.readerCount += 1
    this.#tails.set(ordinal, entry)
    return entry.live
  }

  release(ordinal: number): void {
    const entry = this.#tails.get(ordinal)
    if (entry === undefined) return
    entry.readerCount -= 1
    if (entry.readerCount === 0) this.#tails.delete(ordinal)
  }

  /** The conversations that have tails. */
  get ordinals(): readonly number[] {
    return [...this.#tails.keys()]
  }

  /** Wakes every tail. */
  notifyAll(): void {
    for (const { live } of this.#tails.values()) live.signal.notify()
  }
}
