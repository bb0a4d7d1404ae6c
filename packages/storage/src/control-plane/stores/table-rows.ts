import type { RowChange, Rows } from '../rows.ts'
import type { RowSession } from './session.ts'
import { Table } from './table.ts'

/** What the stores of one table have in common. */
export abstract class TableRows<R extends { readonly id: string }> implements Rows<R> {
  protected readonly session: RowSession
  protected readonly table: Table<R>

  constructor(session: RowSession, table: string) {
    this.session = session
    this.table = new Table(session.dialect, table)
  }

  get(ids: readonly string[]): Promise<(R | undefined)[]> {
    return this.session.read(this.table.getAll(ids))
  }

  update(id: string, members: RowChange<R>): Promise<R | undefined> {
    return this.session.write(() => this.table.update(id, members))
  }

  remove(id: string): Promise<boolean> {
    return this.session.write(() => this.table.remove(id))
  }
}
