import type { Instant } from '@slipway/protocol'
import type { Signal } from '@slipway/shared/async'

/** A conversation whose newest events or record a receiver lacks. */
export interface PendingDelivery {
  readonly conversation: string
  /** Position of the last event that the receiver has; 0 without one. */
  readonly position: number
  /** `updated_at` of the record that the receiver has; null without one. */
  readonly updated_at: Instant | null
  /** The conversation was removed. A newer one with the same id becomes pending, from 0, after `forget`. */
  readonly isRemoved: boolean
}

/**
 * Durable cursors of webhook receivers, one for each receiver and conversation. There is no queue: what is
 * pending is what the log has after the cursor.
 *
 * To deliver: read the record, then the events after `position`, send both, and `advance` to what was sent,
 * with the `updated_at` of that record. Later changes stay pending. Run one delivery at a time for each
 * conversation (put those in progress into `except`). Delivery is at least once and in order.
 */
export interface Deliveries {
  /**
   * Conversations of which the receiver lacks published events or the newest record, at most `limit`, without
   * those in `except`. Includes imported ones, and removed ones that were listed before, also after a
   * restart. The one that has waited longest comes first; one that was just advanced comes last.
   */
  listPending(
    receiver: string,
    limit: number,
    except?: ReadonlySet<string>,
  ): Promise<readonly PendingDelivery[]>
  /**
   * Moves the cursor: the receiver has everything up to here. Durable when it resolves. May move backwards,
   * when a receiver has lost events; a position above the head becomes the head. A conversation that was
   * removed meanwhile stays pending.
   */
  advance(
    receiver: string,
    conversation: string,
    to: { readonly position: number; readonly updated_at: Instant | null },
  ): Promise<void>
  /** Deletes the cursor: the receiver knows that the conversation was removed. Durable when it resolves. */
  forget(receiver: string, conversation: string): Promise<void>
  /**
   * Notified after every change of a conversation: append, patch, create, removal, published import. Take its
   * `version` before `listPending` and wait with it afterwards.
   */
  readonly changeSignal: Signal
}
