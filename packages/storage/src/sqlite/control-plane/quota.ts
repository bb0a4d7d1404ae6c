import type { QuotaRows } from '../../control-plane/control-plane-store.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'

export const usedSql = 'SELECT used FROM quota WHERE user = ? AND day = ?'
const reserveSql = `INSERT INTO quota (user, day, used) VALUES (?, ?, 1)
  ON CONFLICT (user, day) DO UPDATE SET used = used + 1`
const releaseSql = 'UPDATE quota SET used = used - 1 WHERE user = ? AND day = ? AND used > 0'

/** QuotaRows on SQLite. */
export class SqliteQuotaRows implements QuotaRows {
  readonly #db: Database
  readonly #changes: ChangeQueue

  constructor(db: Database, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
  }

  reserve(user: string, day: string, limit: number): ReturnType<QuotaRows['reserve']> {
    return this.#changes.write(() => {
      const used = this.#used(user, day)
      const isReserved = used < limit
      if (isReserved) this.#db.run(reserveSql, user, day)
      return { isReserved, used: isReserved ? used + 1 : used }
    })
  }

  release(user: string, day: string): Promise<void> {
    return this.#changes.write(() => this.#db.run(releaseSql, user, day))
  }

  async getUsed(user: string, day: string): Promise<number> {
    return this.#used(user, day)
  }

  #used(user: string, day: string): number {
    return this.#db.get<[number]>(usedSql, user, day)?.[0] ?? 0
  }
}
