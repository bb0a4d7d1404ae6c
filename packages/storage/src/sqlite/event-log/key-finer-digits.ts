import { positionsPerConversation } from '../../event-log/append-planner.ts'
import { storedMoment } from '../../event-log/stored-moment.ts'
import { readBody } from '../blobs/blobs.ts'
import type { Database } from '../database/database.ts'
import { readableRows } from '../database/readable-rows.ts'
import { isDamaged } from '../database/storage-failure.ts'
import { eventChecksum } from './checksum.ts'
import { type EventRow, eventColumns } from './event-rows.ts'

const pendingSql = (condition: string) =>
  `SELECT ordinal FROM conversation WHERE has_finer = 2 AND ${condition}`
const conversationsAtOnce = 500
const eventsSql = `SELECT ${eventColumns} FROM event WHERE row > ? AND row < ? ORDER BY row`
const keySql = 'UPDATE event SET instant = ?, finer = ?, checksum = ? WHERE row = ?'
const finerSql = `UPDATE conversation SET has_finer = 1, in_order = 0,
  last_instant = (SELECT max(instant) FROM event WHERE row > ?1 AND row < ?2) WHERE ordinal = ?3`
const plainSql = 'UPDATE conversation SET has_finer = 0 WHERE ordinal = ?'

/**
 * Finds the digits below instants in the events of earlier versions, some conversations in a transaction: an
 * interrupted run continues at the next start. No byte of an event changes. One that cannot be read, or does
 * not match its checksum, stays as it is.
 */
export function keyFinerDigits(db: Database): void {
  const pending = readableRows<[number]>(db, pendingSql)
  for (let at = 0; at < pending.length; at += conversationsAtOnce) {
    const some = pending.slice(at, at + conversationsAtOnce)
    db.transaction(() => {
      for (const [ordinal] of some) keyConversation(db, ordinal)
    })
  }
}

function keyConversation(db: Database, ordinal: number): void {
  const base = ordinal * positionsPerConversation
  const keyed: (readonly [instant: number, finer: string, checksum: number | null, row: number])[] = []
  try {
    for (const event of db.iterate<EventRow>(eventsSql, base, base + positionsPerConversation)) {
      const [row, id, instant, stored, checksum, finer] = event
      const body = readBody(db, stored)
      const moment = storedMoment(body, instant)
      const isWritten = checksum === null || checksum === eventChecksum(row, id, { instant, finer }, body)
      if (moment === undefined || !isWritten) continue
      const sum = checksum === null ? null : eventChecksum(row, id, moment, body)
      keyed.push([moment.instant, moment.finer ?? '', sum, row])
    }
  } catch (error) {
    // What was read before the damaged page is keyed.
    if (!isDamaged(error)) throw error
  }
  for (const values of keyed) db.run(keySql, ...values)
  if (keyed.length > 0) db.run(finerSql, base, base + positionsPerConversation, ordinal)
  else db.run(plainSql, ordinal)
}
