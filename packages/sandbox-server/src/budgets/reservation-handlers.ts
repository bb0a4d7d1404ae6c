import type { Handlers } from '@slipway/http'
import {
  type BudgetReservation,
  type BudgetReservationRequest,
  type Instant,
  Problem,
  type sandboxServerRoutes,
} from '@slipway/protocol'
import type { ControlPlaneStore, SandboxRow } from '@slipway/storage/control-plane'
import { getCallingSandbox } from '../auth/authenticator.ts'
import { type Budgets, priceTokens, type TokenPrice } from './budgets.ts'

interface ReservationDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'budgets'>
  readonly budgets: Budgets
  /** Of models without a known price; undefined: their calls are refused. */
  readonly defaultPrice: TokenPrice | undefined
  readonly now: () => Instant
}

/** A reply with fewer tokens is of no use. */
const leastOutputTokens = 1_024

/** What agent servers ask before and tell after each call of a model. */
export function reservationHandlers({ controlPlane, budgets, defaultPrice, now }: ReservationDeps) {
  const reserve = async (
    { id: sandbox, owner, org }: SandboxRow & { readonly owner: string },
    id: string,
    body: BudgetReservationRequest,
  ): Promise<BudgetReservation> => {
    const { max_output_tokens } = body
    // Sandboxes of users without a budget ask each minute: they do not wait for a transaction.
    const [budget] = await budgets.listOf({ owner, org })
    if (budget === undefined) return unlimited
    const cost = costOf(body, defaultPrice)
    if (cost === undefined) return refused(await budgets.unpricedRefusal(budget, body.model))
    const { input, output } = cost
    const outputOfLeast = Math.min(leastOutputTokens, max_output_tokens)
    const share = max_output_tokens === 0 ? 0 : outputOfLeast / max_output_tokens
    const least = Math.ceil(input + output * share)
    const wanted = Math.ceil(input + output)
    const { month } = budgets
    const about = { id, sandbox, user: owner, org, month, wanted, least, now: now() }
    const result = await controlPlane.budgets.reserve(about)
    if (result.kind === 'unlimited') return unlimited
    if (result.kind === 'refused') return refused(await budgets.refusal(result.budget, least))
    const affordable = Math.floor((max_output_tokens * (result.amount - input)) / output)
    const isLess = result.amount < wanted
    return {
      status: 'granted',
      max_output_tokens: isLess ? Math.max(affordable, outputOfLeast) : max_output_tokens,
      message: null,
    }
  }
  return {
    async reserveBudget(request) {
      const { sandbox_id, reservation_id } = request.params
      const row = requireOwn(getCallingSandbox(request), sandbox_id)
      const { owner } = row
      if (owner === null || row.wanted !== 'running')
        throw new Problem('unauthorized', 'Only a sandbox that a user runs may call models')
      return { json: await reserve({ ...row, owner }, reservation_id, request.body) }
    },
    async settleBudget(request) {
      const { sandbox_id, reservation_id: id } = request.params
      const { id: sandbox } = requireOwn(getCallingSandbox(request), sandbox_id)
      const { cost_micros, input_tokens, output_tokens } = request.body
      const byDefault = defaultPrice && priceTokens(defaultPrice, input_tokens, output_tokens)
      const cost = cost_micros ?? (byDefault && Math.ceil(byDefault.input + byDefault.output))
      if (!(await controlPlane.budgets.settle({ id, sandbox, cost, now: now() })))
        throw new Problem('not_found', 'There is no such reservation')
      return { json: { success: true } }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}

const unlimited: BudgetReservation = { status: 'unlimited', max_output_tokens: null, message: null }

function refused(message: string): BudgetReservation {
  return { status: 'refused', max_output_tokens: null, message }
}

function requireOwn(row: SandboxRow, id: string): SandboxRow {
  if (row.id !== id) throw new Problem('forbidden', 'This is the key of another sandbox')
  return row
}

/** Undefined for a model without a price. */
function costOf(
  body: BudgetReservationRequest,
  defaultPrice: TokenPrice | undefined,
): TokenPrice | undefined {
  const { input_cost_micros: input, output_cost_micros: output, input_tokens, max_output_tokens } = body
  if (input !== null && output !== null) return { input, output }
  return defaultPrice && priceTokens(defaultPrice, input_tokens, max_output_tokens)
}
