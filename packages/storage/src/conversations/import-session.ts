import type { ReceivedEvent } from '../event-log/event-log.ts'

/**
 * Events on their way in, above a watermark that no reader passes. Holds the conversation's pen: until `publish` or
 * `abort`, appends and other imports of it reject with a Problem `busy`. What was not published when the process
 * dies is removed after the next open. A new conversation is invisible until `publish`.
 */
export interface ImportSession {
  /** Position that the next new event gets. */
  readonly nextPosition: number
  /** Instant of the last event added (or of the log's last event), undefined when there is none. */
  readonly lastInstant: number | undefined
  /**
   * Adds events in order, in a transaction of their own; call it with some hundreds at a time and await it.
   * Rejects with a Problem `conflict` when an id is taken by an event of other bytes (without `keepTwin`).
   * Events that are there already (same id, same bytes) are passed over.
   */
  add(events: readonly ReceivedEvent[]): Promise<void>
  /** Everything added becomes visible at once, durably, together with the changes given. */
  publish(change: {
    readonly title?: string | null
    readonly tags?: Readonly<Record<string, string>>
    readonly status?: string
    readonly stats?: string
    readonly request?: string
    readonly sealed?: Buffer
  }): Promise<void>
  /** Nothing of it stays. Safe to call after a failure of `add`. */
  abort(): Promise<void>
}
