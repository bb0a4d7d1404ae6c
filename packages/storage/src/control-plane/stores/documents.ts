import { LruMap } from '@slipway/shared/collections'
import type { MemberChanges } from '@slipway/shared/json'
import type { DocumentStore } from '../../documents/document-store.ts'
import { queryColumn, type RowSession, type Work } from './session.ts'

export const documentSql = 'SELECT sealed FROM document WHERE "user" = ? AND name = ?'
export const documentNamesSql = 'SELECT name FROM document WHERE "user" = ?'
const putSql = `INSERT INTO document ("user", name, sealed) VALUES (?, ?, ?)
  ON CONFLICT ("user", name) DO UPDATE SET sealed = excluded.sealed`
const removeSql = 'DELETE FROM document WHERE "user" = ? AND name = ?'
/** Documents whose bytes are remembered. */
const maxLatest = 500

type Make = (old: Buffer | undefined) => Buffer | undefined

/** Documents as rows. An unchanged document that was read lately is the same Buffer. */
export class DocumentRows implements DocumentStore {
  readonly #session: RowSession
  readonly #latest = new LruMap<string, Buffer>({ max: maxLatest })

  constructor(session: RowSession) {
    this.#session = session
  }

  get(user: string, name: string): Promise<Buffer | undefined> {
    return this.#session.read(this.#get(user, name))
  }

  async list(user: string): Promise<readonly string[]> {
    return await this.#session.read(queryColumn<string>(documentNamesSql, user))
  }

  update(user: string, name: string, make: Make, describe?: () => MemberChanges): Promise<void> {
    return this.#session.write(() => this.#update(user, name, make, describe))
  }

  *#get(user: string, name: string): Work<Buffer | undefined> {
    const [bytes] = yield* queryColumn<Buffer>(documentSql, user, name)
    if (bytes === undefined) return undefined
    const key = JSON.stringify([user, name])
    const latest = this.#latest.get(key)
    if (latest?.equals(bytes)) return latest
    this.#latest.set(key, bytes)
    return bytes
  }

  *#update(user: string, name: string, make: Make, describe?: () => MemberChanges): Work<void> {
    const old = yield* this.#get(user, name)
    const updated = make(old)
    if (updated === old) return
    if (updated === undefined) yield { sql: removeSql, values: [user, name], describe }
    else yield { sql: putSql, values: [user, name, updated], describe }
  }
}
