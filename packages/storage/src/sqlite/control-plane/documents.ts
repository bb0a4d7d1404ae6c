import type { DocumentStore } from '../../documents/document-store.ts'
import { type Database, toBuffer } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'

export const documentSql = 'SELECT sealed FROM document WHERE user = ? AND name = ?'
const putSql = `INSERT INTO document (user, name, sealed) VALUES (?, ?, ?)
  ON CONFLICT (user, name) DO UPDATE SET sealed = excluded.sealed`
const removeSql = 'DELETE FROM document WHERE user = ? AND name = ?'

/** Documents as rows of the control plane. */
export class SqliteDocumentStore implements DocumentStore {
  readonly #db: Database
  readonly #changes: ChangeQueue

  constructor(db: Database, changes: ChangeQueue) {
    this.#db = db
    this.#changes = changes
  }

  async get(user: string, name: string): Promise<Buffer | undefined> {
    return this.#get(user, name)
  }

  update(user: string, name: string, make: (old: Buffer | undefined) => Buffer | undefined): Promise<void> {
    return this.#changes.write(() => {
      const updated = make(this.#get(user, name))
      if (updated === undefined) this.#db.run(removeSql, user, name)
      else this.#db.run(putSql, user, name, updated)
    })
  }

  #get(user: string, name: string): Buffer | undefined {
    const row = this.#db.get<[Uint8Array]>(documentSql, user, name)
    return row && toBuffer(row[0])
  }
}
