import type { Instant } from '@slipway/protocol'

/** A conversation of which a receiver does not know everything yet. */
export interface Behind {
  readonly conversation: string
  /** Position of the last event that the receiver has; 0 when it has none. */
  readonly position: number
  /** `updated_at` of the record that the receiver has; null when it has none. */
  readonly updated_at: Instant | null
  /** The conversation was removed, and the receiver that knew of it has not been told. */
  readonly isRemoved: boolean
}

/**
 * How far receivers outside (webhooks) have been told what is in the log: a durable cursor for each receiver and conversation.
 * Nothing is queued: what is to be told is what the log has after the cursor.
 */
export interface Deliveries {
  /**
   * Conversations of which the receiver lacks events or the newest record, the one that waits longest first, at most `limit`, without
   * those in `except`. Imported ones too. A removed one only while the receiver knows it.
   */
  behind(receiver: string, limit: number, except?: ReadonlySet<string>): Promise<readonly Behind[]>
  /** The receiver has everything up to here. Durable when it resolves. Also backwards, when a receiver has lost some. */
  advance(
    receiver: string,
    conversation: string,
    to: { readonly position: number; readonly updated_at: Instant | null },
  ): Promise<void>
  /** The receiver has been told that the conversation was removed. */
  forget(receiver: string, conversation: string): Promise<void>
  /** Rings after every change of any conversation; take `rings` before asking what is behind. Each call is one number or one wait. */
  readonly changes: {
    readonly rings: number
    since(rings: number, signal: AbortSignal): Promise<void>
  }
}
