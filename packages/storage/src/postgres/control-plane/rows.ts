import type { RowChange, Rows } from '../../control-plane/rows.ts'
import type { PostgresDatabase } from '../database/database.ts'
import type { ChangeQueue } from './change-queue.ts'
import type { Table } from './table.ts'

/** What the stores of one table have in common. */
export abstract class PostgresRows<R extends { readonly id: string }> implements Rows<R> {
  protected readonly db: PostgresDatabase
  protected readonly changes: ChangeQueue
  protected readonly table: Table<R>

  constructor(db: PostgresDatabase, changes: ChangeQueue, table: Table<R>) {
    this.db = db
    this.changes = changes
    this.table = table
  }

  get(ids: readonly string[]): Promise<(R | undefined)[]> {
    return this.table.getAll(ids)
  }

  update(id: string, members: RowChange<R>): Promise<R | undefined> {
    return this.changes.write((session) => this.table.update(session, id, members))
  }

  remove(id: string): Promise<boolean> {
    return this.changes.write((session) => this.table.remove(session, id))
  }
}
