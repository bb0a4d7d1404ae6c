import type { RowChange, Rows } from '../../control-plane/rows.ts'
import type { Database } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import type { Table } from './table.ts'

/** What the stores of one table have in common. */
export abstract class SqliteRows<R extends { readonly id: string }> implements Rows<R> {
  protected readonly db: Database
  protected readonly changes: ChangeQueue
  protected readonly table: Table<R>

  constructor(db: Database, changes: ChangeQueue, table: Table<R>) {
    this.db = db
    this.changes = changes
    this.table = table
  }

  async get(ids: readonly string[]): Promise<(R | undefined)[]> {
    return ids.map((id) => this.table.get(id))
  }

  update(id: string, members: RowChange<R>): Promise<R | undefined> {
    return this.changes.write(() => this.table.update(id, members))
  }

  remove(id: string): Promise<boolean> {
    return this.changes.write(() => this.table.remove(id))
  }
}
