import type { DatabaseSync } from 'node:sqlite'
import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { rowsOf } from './open-file.ts'

/**
 * Removes what no reader ever saw: events of imports that were not published, and those of removed
 * conversations. The server does the same in the background. Returns the number of events.
 */
export function dropUnpublished(db: DatabaseSync): number {
  let events = 0
  const remove = (ordinal: number, above: number) => {
    const base = ordinal * positionsPerConversation
    const sql = 'DELETE FROM event WHERE row > ? AND row < ?'
    events += Number(db.prepare(sql).run(base + above, base + positionsPerConversation).changes)
  }
  for (const [ordinal, above] of rowsOf<[number, number]>(db, 'SELECT ordinal, above FROM leftover'))
    remove(ordinal, above)
  const hidden = 'SELECT ordinal FROM conversation WHERE is_visible = 0'
  for (const [ordinal] of rowsOf<[number]>(db, hidden)) remove(ordinal, 0)
  db.exec('DELETE FROM conversation WHERE is_visible = 0; DELETE FROM leftover')
  return events
}
