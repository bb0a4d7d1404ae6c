import type { QuotaRows } from '../control-plane-store.ts'
import { execute, queryNumber, type RowSession, type Work } from './session.ts'

export const usedSql = 'SELECT used FROM quota WHERE "user" = ? AND day = ?'
const takeSql = `INSERT INTO quota ("user", day, used) VALUES (?, ?, 1)
  ON CONFLICT ("user", day) DO UPDATE SET used = quota.used + 1`
const giveBackSql = 'UPDATE quota SET used = used - 1 WHERE "user" = ? AND day = ? AND used > 0'

/** Slots of a user on a day. Changes are parts of those of start tasks. */
export const slots = {
  count: (user: string, day: string): Work<number> => queryNumber(usedSql, user, day),
  take: (user: string, day: string): Work<void> => execute(takeSql, user, day),
  giveBack: (user: string, day: string): Work<void> => execute(giveBackSql, user, day),
}

export function quotaRows(session: RowSession): QuotaRows {
  return { getUsed: (user, day) => session.read(slots.count(user, day)) }
}
