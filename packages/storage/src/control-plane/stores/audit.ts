import type { Instant } from '@slipway/protocol'
import type { AuditFilter, AuditRow, AuditRows } from '../audit-rows.ts'
import { auditListing, containing } from '../listings.ts'
import type { PageQuery, RowPage } from '../rows.ts'
import { execute, queryNumber, type RowSession, type Work } from './session.ts'
import { Table } from './table.ts'

const batchIds = 500

/** Writes a line as a part of another change. */
export type Put = (row: AuditRow) => Work<void>

export const pruneSql = 'DELETE FROM audit WHERE created_at < ?'
export const pruneWithoutCallerSql = `DELETE FROM audit WHERE caller IS NULL AND created_at <
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

  async countAbout(user: string, ids: readonly string[]): Promise<number> {
    let count = await this.#session.read(queryNumber(countOfUserSql, ...ofUser(user)))
    for (const some of batchesOf(ids, user))
      count += await this.#session.read(queryNumber(countOfTargetsSql(some.length), `user:${user}`, ...some))
    return count
  }

  pseudonymise(user: string, pseudonym: string, ids: readonly string[]): Promise<void> {
    return this.#session.write(() => this.#pseudonymise(user, pseudonym, ids))
  }

  prune(before: Instant, maxWithoutCaller: number): Promise<void> {
    return this.#session.write(() => this.#prune(before, maxWithoutCaller))
  }

  *#pseudonymise(user: string, pseudonym: string, ids: readonly string[]): Work<void> {
    yield* execute(`${forgetMembersSql} WHERE caller = ? OR target = ?`, ...ofUser(user))
    for (const some of batchesOf(ids, user))
      yield* execute(`${forgetMembersSql} WHERE target IN (${placeholders(some.length)})`, ...some)
    yield* execute(forgetNamesSql, `user:${user}`)
    yield* execute('UPDATE audit SET caller = ? WHERE caller = ?', `user:${pseudonym}`, `user:${user}`)
    yield* execute('UPDATE audit SET target = ? WHERE target = ?', pseudonym, user)
    yield* execute('UPDATE sandbox_event SET actor = ? WHERE actor = ?', `user:${pseudonym}`, `user:${user}`)
    yield* execute('UPDATE budget SET set_by = ? WHERE set_by = ?', pseudonym, user)
    yield* execute('UPDATE budget_request SET answered_by = ? WHERE answered_by = ?', pseudonym, user)
    // What was paid for is added up after the user too.
    for (const table of ['conversation_usage', 'sandbox_usage'])
      yield* execute(`UPDATE ${table} SET "user" = ? WHERE "user" = ?`, pseudonym, user)
    for (const column of ['before', 'after']) {
      const sql = `UPDATE audit SET "${column}" = replace("${column}", ?, ?) WHERE "${column}" LIKE ? ESCAPE '!'`
      // Whole texts of the JSON: an id may be a part of another word.
      yield* execute(sql, `"${user}"`, `"${pseudonym}"`, containing(`"${user}"`))
    }
  }

  *#prune(before: Instant, maxWithoutCaller: number): Work<void> {
    yield* execute(pruneSql, before)
    yield* execute(pruneWithoutCallerSql, maxWithoutCaller - 1)
  }
}

/** Names of secrets and profiles are a user's own words. */
const forgetNamesSql = `UPDATE audit SET target = NULL
  WHERE caller = ? AND target_type IN ('secret', 'profile', 'consent')`

const forgetMembersSql = 'UPDATE audit SET "before" = NULL, "after" = NULL'
const countOfUserSql = 'SELECT count(*) FROM audit WHERE caller = ? OR target = ?'

function countOfTargetsSql(count: number): string {
  return `SELECT count(*) FROM audit WHERE coalesce(caller, '') <> ? AND target IN (${placeholders(count)})`
}

function ofUser(user: string): [caller: string, target: string] {
  return [`user:${user}`, user]
}

function placeholders(count: number): string {
  return Array.from({ length: count }, () => '?').join(', ')
}

/** A statement has a limited number of values. */
function* batchesOf(ids: readonly string[], except: string): Generator<readonly string[]> {
  const all = [...new Set(ids)].filter((id) => id !== except)
  for (let start = 0; start < all.length; start += batchIds) yield all.slice(start, start + batchIds)
}
