import type { Handlers } from '@slipway/http'
import { type Instant, Problem, type sandboxServerRoutes } from '@slipway/protocol'
import {
  type BudgetRequestRow,
  type BudgetScope,
  budgetId,
  type ControlPlaneStore,
} from '@slipway/storage/control-plane'
import { AdminReach } from '../auth/admin-reach.ts'
import { type Caller, getCaller } from '../auth/authenticator.ts'
import { BudgetRequests } from './budget-requests.ts'
import { type Budgets, toMicros } from './budgets.ts'

interface BudgetDeps {
  readonly controlPlane: Pick<ControlPlaneStore, 'budgets' | 'users'>
  readonly budgets: Budgets
  readonly now: () => Instant
}

/** The budgets of all users and organisations in the reach of an administrator, and requests for more. */
export function budgetHandlers({ controlPlane, budgets, now }: BudgetDeps) {
  const { users, budgets: rows } = controlPlane
  const reach = new AdminReach(users)
  const requests = new BudgetRequests(controlPlane)
  /** A key of an organisation changes budgets of its users, never that of the organisation. */
  const requireReach = async (caller: Caller, scope: BudgetScope, target: string): Promise<void> => {
    if (scope === 'user') await reach.findUserToChange(caller, target)
    else if ((await reach.findOrg(caller, target)) && caller.boundOrg !== null)
      throw new Problem('forbidden', 'A key of an organisation may not change the budget of the organisation')
  }
  const isShown = async (caller: Caller, scope: BudgetScope, target: string): Promise<boolean> => {
    if (scope === 'organization') return caller.boundOrg === null || caller.boundOrg === target
    const user = await users.getUser(target)
    return user !== undefined && (await reach.includesUser(caller, user))
  }
  const answer = async (
    caller: Caller,
    id: string,
    {
      granted,
      note,
    }: { readonly granted?: number | 'asked' | undefined; readonly note?: string | undefined },
  ) => {
    const row = await rows.getRequest(id)
    if (row === undefined || !(await isShown(caller, row.scope, row.target)))
      throw new Problem('not_found', 'There is no such request')
    await requireReach(caller, row.scope, row.target)
    const amount = granted === undefined ? null : granted === 'asked' ? row.amount : toMicros(granted)
    const { month } = budgets
    const about = { granted: amount, note: note ?? null, answered_by: caller.owner, month, now: now() }
    return { json: await requests.describe(await rows.answerRequest(id, about)) }
  }
  return {
    async listBudgets(request) {
      const caller = getCaller(request)
      const all = await rows.list(budgets.month)
      const shown = await Promise.all(all.map(({ scope, target }) => isShown(caller, scope, target)))
      const items = await Promise.all(all.filter((_, at) => shown[at]).map((one) => budgets.describe(one)))
      return { json: { items } }
    },
    async setBudget(request) {
      const caller = getCaller(request)
      const { scope, target_id: target } = request.params
      await requireReach(caller, scope, target)
      const about = { id: budgetId(scope, target), scope, target, set_by: caller.owner }
      const monthly_limit = toMicros(request.body.monthly_limit)
      const row = { ...about, monthly_limit, created_at: now(), updated_at: now() }
      const status = await rows.set(row, budgets.month, await budgets.usedThisMonth(scope, target))
      return { json: await budgets.describe(status) }
    },
    async removeBudget(request) {
      const { scope, target_id: target } = request.params
      await requireReach(getCaller(request), scope, target)
      if (!(await rows.remove(budgetId(scope, target))))
        throw new Problem('not_found', 'There is no such budget')
      return { json: { success: true } }
    },
    async listBudgetRequests(request) {
      const caller = getCaller(request)
      const isInReach = ({ scope, target }: BudgetRequestRow) => isShown(caller, scope, target)
      return { json: await requests.search(request.query, isInReach) }
    },
    async grantBudgetRequest(request) {
      const { amount, note } = request.body
      return await answer(getCaller(request), request.params.request_id, { granted: amount ?? 'asked', note })
    },
    async denyBudgetRequest(request) {
      return await answer(getCaller(request), request.params.request_id, { note: request.body.note })
    },
  } satisfies Partial<Handlers<typeof sandboxServerRoutes>>
}
