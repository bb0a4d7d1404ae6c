import { randomUUID } from 'node:crypto'
import type { Handlers } from '@slipway/http'
import { type Instant, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import type { BudgetRequestRow, ControlPlaneStore } from '@slipway/storage/control-plane'
import { getCaller } from '../auth/authenticator.ts'
import { BudgetRequests } from './budget-requests.ts'
import { type Budgets, toMicros } from './budgets.ts'

interface BudgetDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'budgets' | 'users'>
  readonly budgets: Budgets
  readonly now: () => Instant
}

/** The budgets that apply to a caller, and the caller's requests for more. */
export function ownBudgetHandlers({ controlPlane, budgets, now }: BudgetDeps) {
  const requests = new BudgetRequests(controlPlane)
  return {
    async listOwnBudgets(request) {
      const found = await budgets.listOf(getCaller(request))
      return { json: { items: await Promise.all(found.map((one) => budgets.describe(one))) } }
    },
    async listOwnBudgetRequests(request) {
      const user = getCaller(request).owner ?? ''
      return { json: await requests.search({ ...request.query, user }, () => true) }
    },
    async requestBudget(request) {
      const caller = getCaller(request)
      const { amount, reason, scope } = request.body
      const budget = (await budgets.listOf(caller)).find((one) => one.scope === scope)
      if (budget === undefined || caller.owner === null)
        throw new Problem(
          'not_found',
          `You have no budget of ${scope === 'user' ? 'your own' : 'an organisation'}`,
        )
      const row: BudgetRequestRow = {
        ...{ id: randomUUID(), user: caller.owner, scope, target: budget.target },
        ...{ amount: toMicros(amount), reason, status: 'open', granted: null, note: null },
        ...{ answered_by: null, created_at: now(), answered_at: null },
      }
      await controlPlane.budgets.addRequest(row)
      return { status: 201, json: await requests.describe(row) }
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
