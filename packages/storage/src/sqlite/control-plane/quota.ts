import type { QuotaRows } from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'

export const usedSql = 'SELECT used FROM quota WHERE user = ? AND day = ?'
const takeSql = `INSERT INTO quota (user, day, used) VALUES (?, ?, 1)
  ON CONFLICT (user, day) DO UPDATE SET used = used + 1`
const giveBackSql = 'UPDATE quota SET used = used - 1 WHERE user = ? AND day = ? AND used > 0'

/** QuotaRows on SQLite. Changes are parts of those of start tasks. */
export class SqliteQuotaRows implements QuotaRows {
  readonly #db: Database

  constructor(db: Database) {
    this.#db = db
  }

  async getUsed(user: string, day: string): Promise<number> {
    return this.used(user, day)
  }

  used(user: string, day: string): number {
    return this.#db.get<[number]>(usedSql, user, day)?.[0] ?? 0
  }

  take(user: string, day: string): void {
    this.#db.run(takeSql, user, day)
  }

  giveBack(user: string, day: string): void {
    this.#db.run(giveBackSql, user, day)
  }
}
