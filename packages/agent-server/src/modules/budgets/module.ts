import { unixFetch } from '@slipway/http'
import { defineModule } from '../../core/module.ts'
import { BudgetGuard } from './budget-guard.ts'

/** Budgets in money of the sandbox server that runs this agent server. */
export const budgetsModule = defineModule({
  name: 'budgets',
  routes: {},
  open({ config: { budgetUrl, sessionKeys }, host: { clock, log } }) {
    const [key] = sessionKeys
    if (budgetUrl === undefined || key === undefined) return {}
    const spending = new BudgetGuard({ url: budgetUrl, key, fetch: unixFetch, clock, log })
    return {
      conversations: { wrapModel: (open) => (llm, options) => open(llm, { ...options, spending }) },
      close: spending,
    }
  },
})
