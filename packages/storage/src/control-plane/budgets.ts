import type { Instant } from '@slipway/protocol'
import type { PageQuery, RowPage } from './rows.ts'

export const budgetScopes = ['user', 'organization'] as const
export type BudgetScope = (typeof budgetScopes)[number]

/** What a user or an organisation may spend on models in a UTC month. Money is in millionths of a dollar. */
export interface BudgetRow {
  /** See `budgetId`. */
  readonly id: string
  readonly scope: BudgetScope
  /** Id of the user or the organisation. */
  readonly target: string
  readonly monthly_limit: number
  /** Id of the administrator who set it last, whom a refusal names. */
  readonly set_by: string | null
  readonly created_at: Instant
  readonly updated_at: Instant
}

/** A budget in one month. */
export interface BudgetStatus extends BudgetRow {
  /** As `2026-01`. */
  readonly month: string
  /** Granted in addition to the limit, for this month alone. */
  readonly extra: number
  /** Of calls that were settled, and what was used before the budget was set. */
  readonly spent: number
  /** Of calls that were not settled: those in progress, and those whose agent server died in between. */
  readonly reserved: number
}

export interface Reservation {
  /** Chosen by the caller: a repeat with the same id takes nothing more. */
  readonly id: string
  readonly sandbox: string
  readonly user: string
  readonly org: string | null
  readonly month: string
  /** The most that the call may cost. */
  readonly wanted: number
  /** What the call needs to be of any use. */
  readonly least: number
  readonly now: Instant
}

export type ReserveResult =
  | { readonly kind: 'unlimited' }
  /** `amount`: between `least` and `wanted`. */
  | { readonly kind: 'granted'; readonly amount: number; readonly budgets: readonly BudgetStatus[] }
  | { readonly kind: 'refused'; readonly budget: BudgetStatus }

export interface BudgetRequestRow {
  readonly id: string
  /** Who asks. */
  readonly user: string
  /** Of the budget. */
  readonly scope: BudgetScope
  readonly target: string
  readonly amount: number
  readonly reason: string
  readonly status: 'open' | 'granted' | 'denied'
  /** What was granted; null unless it was. */
  readonly granted: number | null
  readonly note: string | null
  readonly answered_by: string | null
  readonly created_at: Instant
  readonly answered_at: Instant | null
}

export interface BudgetRequestFilter {
  readonly user?: string | undefined
  readonly status?: BudgetRequestRow['status'] | undefined
}

/**
 * Budgets of models in money, and what was reserved and spent of them.
 *
 * A call reserves the most that it may cost before it is made, and is settled with what it has cost. Both are
 * transactions, which follow each other in all servers of a database, so the sum of what is spent and
 * reserved never passes a limit, whatever is interleaved; a call that costs more than was reserved for it
 * counts in full, and the next ones are refused.
 *
 * A reservation has no end: one whose agent server died before it settled stays reserved for the rest of its
 * month, as if it was spent in full. Its provider may have been paid, and only the agent server knew how
 * much.
 *
 * `conversation_usage` cannot serve instead: it comes with the events of a conversation, after other calls
 * were made, and has no default price. It says what was used in the month before its budget was set.
 */
export interface BudgetRows {
  /** The budgets with these ids, or all, in order of the ids. */
  list(month: string, ids?: readonly string[]): Promise<readonly BudgetStatus[]>
  /**
   * Sets the limit and keeps what was spent. `usedBefore`: counts as spent where less was, if the budget is
   * new. A Problem `not_found` when there is no such user or organisation.
   */
  set(row: BudgetRow, month: string, usedBefore: number): Promise<BudgetStatus>
  /** False when there was none. What was spent stays known for the month. */
  remove(id: string): Promise<boolean>
  reserve(reservation: Reservation): Promise<ReserveResult>
  /** The cost counts once, however often it is called. False when the sandbox has no such reservation. */
  settle(settlement: {
    readonly id: string
    readonly sandbox: string
    /** Undefined: what was reserved. */
    readonly cost: number | undefined
    readonly now: Instant
  }): Promise<boolean>
  /** A Problem `conflict` while one of the user for the same budget is open. */
  addRequest(row: BudgetRequestRow): Promise<void>
  getRequest(id: string): Promise<BudgetRequestRow | undefined>
  /** Newest first. */
  searchRequests(query: BudgetRequestFilter & PageQuery): Promise<RowPage<BudgetRequestRow>>
  /**
   * Answers a request; what is granted is added to the budget of the month. Problems: `not_found` without
   * the request or its budget, `conflict` when it is answered.
   */
  answerRequest(
    id: string,
    answer: Pick<BudgetRequestRow, 'granted' | 'note' | 'answered_by'> & {
      readonly month: string
      readonly now: Instant
    },
  ): Promise<BudgetRequestRow>
}

export function budgetId(scope: BudgetScope, target: string): string {
  return `${scope}:${target}`
}
