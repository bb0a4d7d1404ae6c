import type { Instant } from '@slipway/protocol'
import type { RecordUpdate } from '../../event-log/event-log.ts'
import type { Database } from '../database/database.ts'
import { writeSealed } from './sealed-state.ts'

/** How far the log of a conversation goes. */
export interface Extent {
  /** Position of the last event, 0 when there is none. */
  readonly head: number
  /** The greatest instant so far. */
  readonly lastInstant: Instant | undefined
  /** Every instant is at or above its predecessor's, so that order of time is order of position. */
  readonly isInOrder: boolean
  /** Sum of the lengths of its events. */
  readonly bytes: number
}

/** Updates the row of a conversation; `updated_at` always increases. Call it in a transaction. */
export function updateConversation(
  db: Database,
  ordinal: number,
  now: Instant,
  update: RecordUpdate & { readonly extent: Extent; readonly isVisible?: true },
): void {
  const { extent, isVisible, title, tags, status, stats, request, sealed } = update
  const columns = {
    head: extent.head,
    last_instant: extent.lastInstant ?? null,
    in_order: extent.isInOrder ? 1 : 0,
    bytes: extent.bytes,
    // Only where it changes: the indexes depend on it.
    is_visible: isVisible && 1,
    title,
    tags: tags && JSON.stringify(tags),
    status,
    stats,
    request,
  }
  const changes = Object.entries(columns).flatMap(([name, value]) =>
    value === undefined ? [] : [{ name, value }],
  )
  db.run(
    `UPDATE conversation SET updated_at = max(updated_at + 1, ?), ${changes.map(({ name }) => `${name} = ?`).join(', ')}
     WHERE ordinal = ?`,
    now,
    ...changes.map(({ value }) => value),
    ordinal,
  )
  if (sealed !== undefined) writeSealed(db, ordinal, sealed)
}
