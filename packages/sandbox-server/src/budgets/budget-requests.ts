import { type BudgetRequest, formatInstant, formatNullableInstant } from '@slipway/protocol'
import type { BudgetRequestRow, BudgetRows, PageQuery, UserRows } from '@slipway/storage/control-plane'

type SearchQuery = PageQuery & {
  readonly status?: BudgetRequestRow['status'] | undefined
  readonly user?: string
}

/** Requests for more, as the API shows them. */
export class BudgetRequests {
  readonly #rows: BudgetRows
  readonly #users: UserRows

  constructor({ budgets, users }: { readonly budgets: BudgetRows; readonly users: UserRows }) {
    this.#rows = budgets
    this.#users = users
  }

  /** One page, with those alone that are shown. */
  async search(query: SearchQuery, isShown: (row: BudgetRequestRow) => boolean | Promise<boolean>) {
    const { items, next_page_id } = await this.#rows.searchRequests(query)
    const shown = await Promise.all(items.map(isShown))
    const infos = items.filter((_, at) => shown[at]).map((row) => this.describe(row))
    return { items: await Promise.all(infos), next_page_id }
  }

  async describe(row: BudgetRequestRow): Promise<BudgetRequest> {
    const { user, target, amount, granted, created_at, answered_at, answered_by: _, ...members } = row
    const asker = await this.#users.getUser(user)
    return {
      ...members,
      ...{ user_id: user, user_name: asker?.name ?? asker?.email ?? null, target_id: target },
      ...{ amount: amount / 1e6, granted: granted === null ? null : granted / 1e6 },
      ...{ created_at: formatInstant(created_at), answered_at: formatNullableInstant(answered_at) },
    }
  }
}
