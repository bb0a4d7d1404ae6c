import type { DocumentRows } from '../../control-plane/control-plane-store.ts'
import { bufferOf, type Database } from '../database/database.ts'
import type { Changes } from './change-queue.ts'

export const documentSql = 'SELECT sealed FROM document WHERE user = ? AND name = ?'
const putSql = `INSERT INTO document (user, name, sealed) VALUES (?, ?, ?)
  ON CONFLICT (user, name) DO UPDATE SET sealed = excluded.sealed`
const removeSql = 'DELETE FROM document WHERE user = ? AND name = ?'

/** DocumentRows on SQLite. */
export class SqliteDocumentRows implements DocumentRows {
  readonly #db: Database
  readonly #changes: Changes

  constructor(db: Database, changes: Changes) {
    this.#db = db
    this.#changes = changes
  }

  async get(user: string, name: string): Promise<Buffer | undefined> {
    return this.#get(user, name)
  }

  change(user: string, name: string, make: (old: Buffer | undefined) => Buffer | undefined): Promise<void> {
    return this.#changes.write(() => {
      const made = make(this.#get(user, name))
      if (made === undefined) this.#db.run(removeSql, user, name)
      else this.#db.run(putSql, user, name, made)
    })
  }

  #get(user: string, name: string): Buffer | undefined {
    const row = this.#db.row<[Uint8Array]>(documentSql, user, name)
    return row && bufferOf(row[0])
  }
}
