import type { QuotaRows } from '../../control-plane/control-plane-store.ts'
import type { PostgresDatabase, Session } from '../database/database.ts'
import { encodeText } from './text.ts'

const usedSql = 'SELECT used FROM quota WHERE "user" = $1 AND day = $2'
const takeSql = `INSERT INTO quota ("user", day, used) VALUES ($1, $2, 1)
  ON CONFLICT ("user", day) DO UPDATE SET used = quota.used + 1`
const giveBackSql = 'UPDATE quota SET used = used - 1 WHERE "user" = $1 AND day = $2 AND used > 0'

/** QuotaRows on PostgreSQL. Changes are parts of those of start tasks. */
export class PostgresQuotaRows implements QuotaRows {
  readonly #db: PostgresDatabase

  constructor(db: PostgresDatabase) {
    this.#db = db
  }

  async getUsed(user: string, day: string): Promise<number> {
    return (await this.#db.query<[number]>(usedSql, [encodeText(user), day]))[0]?.[0] ?? 0
  }

  async used(session: Session, user: string, day: string): Promise<number> {
    return (await session.run<[number]>(usedSql, [encodeText(user), day])).rows[0]?.[0] ?? 0
  }

  async take(session: Session, user: string, day: string): Promise<void> {
    await session.run(takeSql, [encodeText(user), day])
  }

  async giveBack(session: Session, user: string, day: string): Promise<void> {
    await session.run(giveBackSql, [encodeText(user), day])
  }
}
