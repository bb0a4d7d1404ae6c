import { LruMap } from '@slipway/shared/collections'
import type { DocumentStore } from '../../documents/document-store.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import { encodeText } from './text.ts'

const selectSql = 'SELECT sealed FROM document WHERE "user" = $1 AND name = $2'
const putSql = `INSERT INTO document ("user", name, sealed) VALUES ($1, $2, $3)
  ON CONFLICT ("user", name) DO UPDATE SET sealed = excluded.sealed`
const removeSql = 'DELETE FROM document WHERE "user" = $1 AND name = $2'
/** Documents whose bytes are remembered. */
const maxLatest = 500

/** Documents as rows of the control plane. An unchanged document that was read lately is the same Buffer. */
export class PostgresDocumentStore implements DocumentStore {
  readonly #db: PostgresDatabase
  readonly #changes: ChangeQueue
  readonly #latest = new LruMap<string, Buffer>({ max: maxLatest })

  constructor(db: PostgresDatabase, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
  }

  async get(user: string, name: string): Promise<Buffer | undefined> {
    const rows = await this.#db.query<[Buffer]>(selectSql, [encodeText(user), encodeText(name)])
    return this.#intern(user, name, rows[0]?.[0])
  }

  update(user: string, name: string, make: (old: Buffer | undefined) => Buffer | undefined): Promise<void> {
    const key = [encodeText(user), encodeText(name)]
    return this.#changes.write(async (session) => {
      const { rows } = await session.run<[Buffer]>(selectSql, key)
      const updated = make(this.#intern(user, name, rows[0]?.[0]))
      if (updated === undefined) await session.run(removeSql, key)
      else await session.run(putSql, [...key, updated])
    })
  }

  #intern(user: string, name: string, bytes: Buffer | undefined): Buffer | undefined {
    if (bytes === undefined) return undefined
    const key = JSON.stringify([user, name])
    const latest = this.#latest.get(key)
    if (latest?.equals(bytes)) return latest
    this.#latest.set(key, bytes)
    return bytes
  }
}
