import type { Instant } from '@slipway/protocol'

/** A conversation of which a receiver does not know everything yet. */
export interface PendingDelivery {
  readonly conversation: string
  /** Position of the last event that the receiver has; 0 when it has none. */
  readonly position: number
  /** `updated_at` of the record that the receiver has; null when it has none. */
  readonly updated_at: Instant | null
  /**
   * The conversation was removed, and the receiver that knew of it has not been told. When another one has its id since, that one
   * is behind, from 0, after `forget`.
   */
  readonly isRemoved: boolean
}

/**
 * How far receivers outside (webhooks) have been told what is in the log: a durable cursor for each receiver and conversation.
 * Nothing is queued: what is to be told is what the log has after the cursor.
 *
 * To tell a receiver: read the record, then the events after `position`, send both, and `advance` to what was sent, with the
 * `updated_at` of the record that was read. What changes in the meantime stays behind. One at a time for each conversation
 * (put those under way into `except`). A receiver is told everything at least once and in order.
 */
export interface Deliveries {
  /**
   * Conversations of which the receiver lacks published events or the newest record, at most `limit`, without those in `except`.
   * Imported ones too, and removed ones that were once handed out here, also after a restart. The one that waits longest
   * comes first; one that was just advanced comes after the others.
   */
  listPending(
    receiver: string,
    limit: number,
    except?: ReadonlySet<string>,
  ): Promise<readonly PendingDelivery[]>
  /**
   * The receiver has everything up to here. Durable when it resolves. Also backwards, when a receiver has lost some; beyond the
   * head it is the head. Of a conversation that was removed in the meantime the receiver is still to be told so.
   */
  advance(
    receiver: string,
    conversation: string,
    to: { readonly position: number; readonly updated_at: Instant | null },
  ): Promise<void>
  /** The receiver has been told that the conversation was removed. Durable when it resolves. */
  forget(receiver: string, conversation: string): Promise<void>
  /**
   * Rings after every change of any conversation: append, patch, create, removal, published import. Take `rings` before asking what
   * is behind, and wait with it after: `since` resolves at once when it has rung in between, and when the signal aborts.
   */
  readonly changeSignal: {
    readonly version: number
    wait(rings: number, signal: AbortSignal): Promise<void>
  }
}
