import type { Instant } from '@slipway/protocol'
import type { Extent } from '../../event-log/append-planner.ts'
import { DamageError } from '../../event-log/damage.ts'
import type { RecordUpdate } from '../../event-log/event-log.ts'
import type { Database } from '../database/database.ts'
import { isDamaged } from '../database/storage-failure.ts'
import { writeSealed } from './sealed-state.ts'

/** What the checksum of a conversation's row covers: values that nothing else verifies. */
export const checkedColumns = 'ordinal, id, title, tags, status, request, parent, created_at, stats'
const sealSql = `UPDATE conversation SET checksum = checksum_of(${checkedColumns}) WHERE ordinal = ?`

/** Writes the checksum of a conversation's row. Call it in the transaction that changes the row. */
export function sealRecord(db: Database, ordinal: number): void {
  db.run(sealSql, ordinal)
}

/** Updates the row of a conversation; `updated_at` always increases. Call it in a transaction. */
export function updateConversation(
  db: Database,
  ordinal: number,
  now: Instant,
  update: RecordUpdate & { readonly extent: Extent; readonly isVisible?: true },
): void {
  const { extent, isVisible, title, missing_title, tags, status, stats, request, sealed } = update
  const columns = {
    head: extent.head,
    last_instant: extent.lastInstant ?? null,
    in_order: extent.isInOrder ? 1 : 0,
    // Only where it changes: the log of an earlier version keeps its mark.
    has_finer: extent.hasFiner ? 1 : undefined,
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
  if (missing_title !== undefined)
    db.run('UPDATE conversation SET title = ? WHERE ordinal = ? AND title IS NULL', missing_title, ordinal)
  const isRecordChanged = [title, missing_title, tags, status, stats, request].some(
    (value) => value !== undefined,
  )
  if (isRecordChanged || isVisible) sealRecord(db, ordinal)
  if (sealed !== undefined) writeSealed(db, ordinal, sealed)
}

/** Errors of a damaged page name the conversation whose record is read: they are DamageErrors. */
export function nameRecord<T>(conversation: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    if (!isDamaged(error) || error instanceof DamageError) throw error
    throw new DamageError(conversation, 'record', 'cannot be read', error)
  }
}
