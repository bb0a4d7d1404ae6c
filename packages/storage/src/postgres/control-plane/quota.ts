import type { QuotaRows } from '../../control-plane/control-plane-store.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { encodeText } from './text.ts'

const usedSql = 'SELECT used FROM quota WHERE "user" = $1 AND day = $2'
const reserveSql = `INSERT INTO quota ("user", day, used) VALUES ($1, $2, 1)
  ON CONFLICT ("user", day) DO UPDATE SET used = quota.used + 1`
const releaseSql = 'UPDATE quota SET used = used - 1 WHERE "user" = $1 AND day = $2 AND used > 0'

/** QuotaRows on PostgreSQL. */
export class PostgresQuotaRows implements QuotaRows {
  readonly #db: PostgresDatabase
  readonly #changes: ChangeQueue

  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
  }

  reserve(user: string, day: string, limit: number): ReturnType<QuotaRows['reserve']> {
    const key = [encodeText(user), day]
    return this.#changes.write(async (session) => {
      const { rows } = await session.run<[number]>(usedSql, key)
      const used = rows[0]?.[0] ?? 0
      const isReserved = used < limit
      if (isReserved) await session.run(reserveSql, key)
      return { isReserved, used: isReserved ? used + 1 : used }
    })
  }

  async release(user: string, day: string): Promise<void> {
    await this.#changes.write((session) => session.run(releaseSql, [encodeText(user), day]))
  }

  async getUsed(user: string, day: string): Promise<number> {
    return (await this.#db.query<[number]>(usedSql, [encodeText(user), day]))[0]?.[0] ?? 0
  }
}
