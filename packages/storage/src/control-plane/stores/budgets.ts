import { Problem } from '@slipway/protocol'
import {
  type BudgetRequestFilter,
  type BudgetRequestRow,
  type BudgetRow,
  type BudgetRows,
  type BudgetScope,
  type BudgetStatus,
  budgetId,
  type Reservation,
  type ReserveResult,
} from '../budgets.ts'
import { newestFirst } from '../listings.ts'
import type { PageQuery, RowPage } from '../rows.ts'
import { execute, query, type RowSession, type Work } from './session.ts'
import { Table } from './table.ts'

const dayMicros = 86_400_000_000
/** How long repeats of an answer that was lost are known. */
const settledMicros = dayMicros
/** Longer than a month: a reservation that is not settled counts to the end of its month. */
const openMicros = 40 * dayMicros

const monthColumns = 'budget, extra, spent, reserved'
/** One row of a month. */
const addSql = `INSERT INTO budget_month (budget, month, extra, spent, reserved) VALUES (?, ?, ?, ?, ?)
  ON CONFLICT (budget, month) DO UPDATE SET extra = budget_month.extra + excluded.extra,
  spent = budget_month.spent + excluded.spent, reserved = budget_month.reserved + excluded.reserved`
/** What agent servers report may be untrue: the sum stays a number that is read exactly. */
const mostSpent = 9_000_000_000_000_000
/** Of a budget that was removed with its month there is no row. */
const addSettledSql = `UPDATE budget_month SET reserved = reserved - ?,
  spent = CASE WHEN spent + ? > ${mostSpent} THEN ${mostSpent} ELSE spent + ? END
  WHERE budget = ? AND month = ?`
export const reservationSql =
  'SELECT sandbox, month, budgets, amount, settled FROM budget_reservation WHERE id = ?'
const addReservationSql = `INSERT INTO budget_reservation
  (id, sandbox, "user", month, budgets, amount, settled, remove_at) VALUES (?, ?, ?, ?, ?, ?, 0, ?)`
const settleSql = 'UPDATE budget_reservation SET settled = 1, remove_at = ? WHERE id = ?'
export const oldReservationsSql = 'DELETE FROM budget_reservation WHERE remove_at < ?'
export const openRequestClause = `INDEXED BY budget_request_user WHERE "user" = ? AND status = 'open'`

type ReservationColumns = readonly [
  sandbox: string,
  month: string,
  budgets: string,
  amount: number,
  settled: number,
]

export class BudgetStore implements BudgetRows {
  readonly #session: RowSession
  readonly #budgets: Table<BudgetRow>
  readonly #requests: Table<BudgetRequestRow>

  constructor(session: RowSession) {
    this.#session = session
    this.#budgets = new Table(session.dialect, 'budget')
    this.#requests = new Table(session.dialect, 'budget_request')
  }

  list(month: string, ids?: readonly string[]): Promise<readonly BudgetStatus[]> {
    return this.#session.read(this.#list(month, ids))
  }

  set(row: BudgetRow, month: string, usedBefore: number): Promise<BudgetStatus> {
    return this.#session.write(() => this.#set(row, month, usedBefore))
  }

  remove(id: string): Promise<boolean> {
    return this.#session.write(() => this.#budgets.remove(id))
  }

  reserve(reservation: Reservation): Promise<ReserveResult> {
    return this.#session.write(() => this.#reserve(reservation))
  }

  settle(settlement: Parameters<BudgetRows['settle']>[0]): Promise<boolean> {
    return this.#session.write(() => this.#settle(settlement))
  }

  addRequest(row: BudgetRequestRow): Promise<void> {
    return this.#session.write(() => this.#addRequest(row))
  }

  getRequest(id: string): Promise<BudgetRequestRow | undefined> {
    return this.#session.read(this.#requests.get(id))
  }

  searchRequests({
    limit,
    page_id,
    user,
    status,
  }: BudgetRequestFilter & PageQuery): Promise<RowPage<BudgetRequestRow>> {
    const filters = [
      ...(user === undefined ? [] : [['"user" = ?', user]]),
      ...(status === undefined ? [] : [['status = ?', status]]),
    ] as const
    const listing = {
      ...newestFirst(user === undefined ? 'budget_request_created' : 'budget_request_user'),
      where: filters.map(([condition]) => String(condition)),
      values: filters.map(([, value]) => String(value)),
    }
    return this.#session.read(this.#requests.page(listing, { limit, page_id }))
  }

  answerRequest(id: string, answer: Parameters<BudgetRows['answerRequest']>[1]): Promise<BudgetRequestRow> {
    return this.#session.write(() => this.#answer(id, answer))
  }

  *#list(month: string, ids: readonly string[] | undefined): Work<readonly BudgetStatus[]> {
    const rows =
      ids === undefined
        ? yield* this.#budgets.select('ORDER BY id')
        : (yield* this.#budgets.getAll(ids)).filter((row) => row !== undefined)
    if (rows.length === 0) return []
    const found = yield* query<[string, number, number, number]>(monthSql(ids), month, ...(ids ?? []))
    const months = new Map(found.map(([id, ...amounts]) => [id, amounts]))
    return rows.map((row) => {
      const [extra = 0, spent = 0, reserved = 0] = months.get(row.id) ?? []
      return { ...row, month, extra, spent, reserved }
    })
  }

  *#set(row: BudgetRow, month: string, usedBefore: number): Work<BudgetStatus> {
    yield* this.#assertTargetExists(row.scope, row.target)
    const isNew = yield* this.#budgets.insert(row)
    const { monthly_limit, set_by, updated_at } = row
    if (!isNew) yield* this.#budgets.update(row.id, { monthly_limit, set_by, updated_at })
    const status = yield* this.#status(row.id, month)
    const more = isNew ? Math.max(0, Math.min(usedBefore, mostSpent) - status.spent) : 0
    if (more > 0) yield* execute(addSql, row.id, month, 0, more, 0)
    return { ...status, spent: status.spent + more }
  }

  *#reserve(reservation: Reservation): Work<ReserveResult> {
    const { id, sandbox, user, org, month, wanted, least, now } = reservation
    const ids = [budgetId('user', user), ...(org === null ? [] : [budgetId('organization', org)])]
    const budgets = yield* this.#list(month, ids)
    const [known] = yield* query<ReservationColumns>(reservationSql, id)
    if (known !== undefined) {
      if (known[0] !== sandbox) throw new Problem('conflict', 'This id is that of another reservation')
      return { kind: 'granted', amount: known[3], budgets }
    }
    const [budget] = budgets.toSorted((a, b) => leftOf(a) - leftOf(b))
    if (budget === undefined) return { kind: 'unlimited' }
    const left = leftOf(budget)
    if (wanted > 0 && least > left) return { kind: 'refused', budget }
    // Half of what is left: another call that is made at the same time gets something too.
    const amount = wanted <= left || wanted === 0 ? wanted : Math.max(least, Math.floor(left / 2))
    yield* execute(oldReservationsSql, now)
    const charged = JSON.stringify(budgets.map((one) => one.id))
    yield* execute(addReservationSql, id, sandbox, user, month, charged, amount, now + openMicros)
    for (const one of budgets) yield* execute(addSql, one.id, month, 0, 0, amount)
    const after = budgets.map((one) => ({ ...one, reserved: one.reserved + amount }))
    return { kind: 'granted', amount, budgets: after }
  }

  *#settle({ id, sandbox, cost, now }: Parameters<BudgetRows['settle']>[0]): Work<boolean> {
    const [known] = yield* query<ReservationColumns>(reservationSql, id)
    if (known === undefined || known[0] !== sandbox) return false
    const [, month, budgets, amount, settled] = known
    if (settled === 1) return true
    yield* execute(settleSql, now + settledMicros, id)
    const spent = cost ?? amount
    for (const budget of JSON.parse(budgets) as string[])
      yield* execute(addSettledSql, amount, spent, spent, budget, month)
    return true
  }

  *#addRequest(row: BudgetRequestRow): Work<void> {
    const open = yield* this.#requests.select(openRequestClause, row.user)
    if (open.some(({ scope, target }) => scope === row.scope && target === row.target))
      throw new Problem('conflict', 'A request of yours for this budget waits for its answer')
    yield* this.#requests.insert(row)
  }

  *#answer(id: string, answer: Parameters<BudgetRows['answerRequest']>[1]): Work<BudgetRequestRow> {
    const { granted, note, answered_by, month, now } = answer
    const row = yield* this.#requests.get(id)
    if (row === undefined) throw new Problem('not_found', 'There is no such request')
    if (row.status !== 'open') throw new Problem('conflict', `The request is ${row.status} already`)
    if (granted !== null) {
      const budget = budgetId(row.scope, row.target)
      yield* this.#status(budget, month)
      yield* execute(addSql, budget, month, granted, 0, 0)
    }
    const status = granted === null ? 'denied' : 'granted'
    const change = { status, granted, note, answered_by, answered_at: now } as const
    return { ...row, ...change, ...(yield* this.#requests.update(id, change)) }
  }

  *#status(id: string, month: string): Work<BudgetStatus> {
    const [status] = yield* this.#list(month, [id])
    if (status === undefined) throw new Problem('not_found', 'There is no such budget')
    return status
  }

  /** Otherwise a later one with the same id would inherit the budget. */
  *#assertTargetExists(scope: BudgetScope, target: string): Work<void> {
    const table = new Table(this.#session.dialect, scope === 'user' ? 'user' : 'org')
    if ((yield* table.get(target)) === undefined)
      throw new Problem('not_found', `There is no such ${scope === 'user' ? 'user' : 'organisation'}`)
  }
}

/** Of all budgets, or of those with the ids. */
export function monthSql(ids: readonly string[] = []): string {
  const some = ids.length === 0 ? '' : ` AND budget IN (${ids.map(() => '?').join(', ')})`
  return `SELECT ${monthColumns} FROM budget_month WHERE month = ?${some}`
}

function leftOf({ monthly_limit, extra, spent, reserved }: BudgetStatus): number {
  return monthly_limit + extra - spent - reserved
}

/** What is kept of the budget of a user or an organisation, in the transaction that removes it. */
export function* removeBudget(session: RowSession, scope: BudgetScope, target: string): Work<void> {
  const id = budgetId(scope, target)
  yield* new Table<BudgetRow>(session.dialect, 'budget').remove(id)
  yield* execute('DELETE FROM budget_month WHERE budget = ?', id)
  yield* execute('DELETE FROM budget_request WHERE scope = ? AND target = ?', scope, target)
}
