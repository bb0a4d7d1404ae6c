import type { Budget } from '@slipway/protocol'
import { formatInstant, type Instant } from '@slipway/protocol'
import {
  type BudgetScope,
  type BudgetStatus,
  budgetId,
  type ControlPlaneStore,
} from '@slipway/storage/control-plane'

/** Millionths of a dollar for one token. */
export interface TokenPrice {
  readonly input: number
  readonly output: number
}

export function priceTokens(price: TokenPrice, input: number, output: number): TokenPrice {
  return { input: price.input * input, output: price.output * output }
}

interface BudgetsDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'budgets' | 'usage' | 'users'>
  /** Of models without a known price. */
  readonly defaultPrice: TokenPrice | undefined
  readonly now: () => Instant
}

/** From this share on a person is warned. */
const warningShare = 0.8

/** The budgets of users and organisations in the present month, and what is said about them. */
export class Budgets {
  readonly #deps: BudgetsDeps

  constructor(deps: BudgetsDeps) {
    this.#deps = deps
  }

  /** As `2026-01`, UTC. */
  get month(): string {
    return formatInstant(this.#deps.now()).slice(0, 7)
  }

  /** Those that apply to calls of a user. */
  listOf({ owner, org }: { readonly owner: string | null; readonly org?: string | null | undefined }) {
    const ids = [
      ...(owner === null ? [] : [budgetId('user', owner)]),
      ...(org ? [budgetId('organization', org)] : []),
    ]
    return this.#deps.controlPlane.budgets.list(this.month, ids)
  }

  /**
   * What was used in this month, in millionths of a dollar. Reports have no price: a model that has cost
   * nothing counts at the default price, as its calls do from now on.
   */
  async usedThisMonth(scope: BudgetScope, target: string): Promise<number> {
    const { month } = this
    const { controlPlane, defaultPrice } = this.#deps
    const days = { from: `${month}-01`, to: `${month}-31` }
    const of = scope === 'user' ? { user: target } : { org: target }
    const rows = await controlPlane.usage.sum({ by: 'model', ...days, ...of })
    const costs = rows.map(({ cost, prompt_tokens, completion_tokens }) => {
      if (cost > 0 || defaultPrice === undefined) return cost
      const { input, output } = priceTokens(defaultPrice, prompt_tokens, completion_tokens)
      return Math.ceil(input + output)
    })
    return costs.reduce((sum, cost) => sum + cost, 0)
  }

  async describe(status: BudgetStatus): Promise<Budget> {
    const { scope, target, month, monthly_limit, extra, spent, reserved } = status
    const limit = monthly_limit + extra
    const left = Math.max(0, limit - spent - reserved)
    const state = left === 0 ? 'exhausted' : spent + reserved >= limit * warningShare ? 'warning' : 'ok'
    const ask = await this.#whomToAsk(status)
    const words = `${await this.#words(status)} ${askFor(scope, ask)}`
    return {
      ...{ scope, target_id: target, target_name: await this.#nameOf(scope, target), month },
      ...{ monthly_limit: monthly_limit / 1e6, extra: extra / 1e6 },
      ...{ spent: spent / 1e6, reserved: reserved / 1e6, left: left / 1e6 },
      ...{ state, message: state === 'ok' ? null : words, ask, resets_at: formatInstant(resetOf(month)) },
    }
  }

  /** Why a call of at least this cost is not made. */
  async refusal(status: BudgetStatus, least: number): Promise<string> {
    const ask = askFor(status.scope, await this.#whomToAsk(status))
    const resetAt = formatInstant(resetOf(status.month)).slice(0, 10)
    return `${await this.#words(status)} The next call may cost ${formatDollars(least)}. ${ask} The budget resets on ${resetAt} (UTC).`
  }

  /** Why a call of a model without a price is not made. */
  async unpricedRefusal(status: BudgetStatus, model: string): Promise<string> {
    const ask = await this.#whomToAsk(status)
    return `The model ${model} has no known price, so it cannot count to the budget of ${await this.#owner(status)}. Choose another model, or ask ${ask} to set SLIPWAY_BUDGET_DEFAULT_PRICE or the prices of the model (input_cost_per_token, output_cost_per_token).`
  }

  async #words(status: BudgetStatus): Promise<string> {
    const { month, monthly_limit, extra, spent, reserved } = status
    const more = reserved === 0 ? '' : ` and ${formatDollars(reserved)} reserved for calls`
    return `The budget of ${await this.#owner(status)} for ${month}: ${formatDollars(spent)} spent${more} of ${formatDollars(monthly_limit + extra)}.`
  }

  async #owner({ scope, target }: BudgetStatus): Promise<string> {
    const name = (await this.#nameOf(scope, target)) ?? target
    return scope === 'user' ? `the user ${name}` : `the organisation ${name}`
  }

  async #nameOf(scope: BudgetScope, id: string): Promise<string | null> {
    const { users } = this.#deps.controlPlane
    if (scope === 'organization') return (await users.getOrg(id))?.name ?? null
    const user = await users.getUser(id)
    return user?.name ?? user?.email ?? null
  }

  async #whomToAsk({ set_by }: BudgetStatus): Promise<string> {
    return (set_by === null ? null : await this.#nameOf('user', set_by)) ?? 'an administrator'
  }
}

/** Dollars as millionths. */
export function toMicros(dollars: number): number {
  return Math.round(dollars * 1e6)
}

function askFor(scope: BudgetScope, name: string): string {
  const flag = scope === 'organization' ? ' --org' : ''
  return `Ask ${name} for more: slipway budgets request DOLLARS --reason TEXT${flag}.`
}

/** The next month begins. */
function resetOf(month: string): Instant {
  const [year = 0, number = 0] = month.split('-').map(Number)
  return Date.UTC(year, number, 1) * 1000
}

function formatDollars(micros: number): string {
  return `$${(micros / 1e6).toFixed(micros > 0 && micros < 10_000 ? 6 : 2)}`
}
