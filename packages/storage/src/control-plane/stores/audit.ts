import type { Instant } from '@slipway/protocol'
import type { AuditFilter, AuditRow, AuditRows } from '../audit-rows.ts'
import { auditListing } from '../listings.ts'
import type { PageQuery, RowPage } from '../rows.ts'
import { execute, type RowSession, type Work } from './session.ts'
import { Table } from './table.ts'

/** Writes a line as a part of another change. */
export type Put = (row: AuditRow) => Work<void>

export const pruneSql = 'DELETE FROM audit WHERE created_at < ?'
export const pruneNobodySql = `DELETE FROM audit WHERE caller IS NULL AND created_at <
  (SELECT created_at FROM audit WHERE caller IS NULL ORDER BY created_at DESC, id DESC LIMIT 1 OFFSET ?)`

export class AuditStore implements AuditRows {
  readonly #session: RowSession
  readonly #table: Table<AuditRow>

  constructor(session: RowSession) {
    this.#session = session
    this.#table = new Table(session.dialect, 'audit')
  }

  search({ limit, page_id, ...filter }: AuditFilter & PageQuery): Promise<RowPage<AuditRow>> {
    return this.#session.read(this.#table.page(auditListing(filter), { limit, page_id }))
  }

  put(row: AuditRow): Promise<void> {
    return this.#session.write(() => this.putWork(row))
  }

  *putWork(row: AuditRow): Work<void> {
    if (!(yield* this.#table.insert(row))) yield* this.#table.update(row.id, row)
  }

  prune(before: Instant, maxNobody: number): Promise<void> {
    return this.#session.write(() => this.#prune(before, maxNobody))
  }

  *#prune(before: Instant, maxNobody: number): Work<void> {
    yield* execute(pruneSql, before)
    yield* execute(pruneNobodySql, maxNobody - 1)
  }
}
