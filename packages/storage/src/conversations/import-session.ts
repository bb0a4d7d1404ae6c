import type { Moment } from '@slipway/protocol'
import type { ReceivedEvent, RecordUpdate } from '../event-log/event-log.ts'

/**
 * An import: its events stay invisible, above the head, until `publish`. Until `publish` or `abort`, appends
 * to the conversation and other imports of it reject with a Problem `busy`. What is unpublished when the
 * process dies is removed after the next open. A new conversation is invisible until `publish`.
 */
export interface ImportSession {
  /** Position of the next new event. */
  readonly nextPosition: number
  /** Moment of the last event added (or of the log's last event), undefined when there is none. */
  readonly last: Moment | undefined
  /**
   * Adds events in order, in their own transaction. Call it with some hundreds of events and await it.
   * Rejects with a Problem `conflict` when another event has the same id and other bytes (without
   * `keepDuplicateId`). Skips events that are stored already (same id, same bytes).
   */
  add(events: readonly ReceivedEvent[]): Promise<void>
  /** Makes everything added visible at once, durably, together with these changes of the record. */
  publish(update: RecordUpdate): Promise<void>
  /** Removes everything added. Safe to call after a failure of `add`. */
  abort(): Promise<void>
}
