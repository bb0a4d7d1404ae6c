import { Bell } from '../../async/signal.ts'
import type { StoredEvent } from '../../event-log/event-log.ts'

const maxRecentEvents = 512
const maxRecentBytes = 1024 * 1024
/** A batch of a tail ends when it reaches this. */
export const batchBytes = 256 * 1024

/** A conversation that is being tailed: its bell, and its newest events as the very objects that readers share. */
export class Live {
  readonly bell = new Bell()
  #recent: StoredEvent[] = []
  #recentBytes = 0
  #lastBatch:
    | { readonly after: number; readonly end: number; readonly events: readonly StoredEvent[] }
    | undefined

  /** Events that are durable now. */
  push(events: readonly StoredEvent[]): void {
    const [first] = events
    if (first === undefined) return
    if (this.#recent.at(-1)?.position !== first.position - 1) this.reset()
    for (const event of events) {
      this.#recent.push(event)
      this.#recentBytes += event.bytes.length
    }
    let drop = 0
    while (this.#recentBytes > maxRecentBytes || this.#recent.length - drop > maxRecentEvents) {
      this.#recentBytes -= this.#recent[drop]?.bytes.length ?? 0
      drop += 1
    }
    if (drop > 0) this.#recent.splice(0, drop)
  }

  /** Something else than the last appends has moved the head. */
  reset(): void {
    this.#recent = []
    this.#recentBytes = 0
    this.#lastBatch = undefined
  }

  /** The batch after a position, undefined when its beginning is not at hand. Equal calls get the same array. */
  after(position: number): readonly StoredEvent[] | undefined {
    const [first] = this.#recent
    const end = this.#recent.at(-1)?.position ?? 0
    if (first === undefined || position + 1 < first.position || position >= end) return undefined
    const last = this.#lastBatch
    if (last?.after === position && last.end === end) return last.events
    const events: StoredEvent[] = []
    let sizeBytes = 0
    for (let i = position + 1 - first.position; i < this.#recent.length && sizeBytes < batchBytes; i++) {
      const event = this.#recent[i]
      if (event === undefined) break
      events.push(event)
      sizeBytes += event.bytes.length
    }
    this.#lastBatch = { after: position, end, events }
    return events
  }
}

/** The conversations that are being tailed, by ordinal. */
export class Lives {
  readonly #lives = new Map<number, { readonly live: Live; tails: number }>()

  get(ordinal: number): Live | undefined {
    return this.#lives.get(ordinal)?.live
  }

  enter(ordinal: number): Live {
    const known = this.#lives.get(ordinal) ?? { live: new Live(), tails: 0 }
    known.tails += 1
    this.#lives.set(ordinal, known)
    return known.live
  }

  leave(ordinal: number): void {
    const known = this.#lives.get(ordinal)
    if (known === undefined) return
    known.tails -= 1
    if (known.tails === 0) this.#lives.delete(ordinal)
  }

  /** Wakes every tail: the log is being closed. */
  ringAll(): void {
    for (const { live } of this.#lives.values()) live.bell.ring()
  }
}
