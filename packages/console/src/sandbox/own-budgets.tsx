import type { Budget } from '@slipway/protocol'
import { type FormEvent, useState } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Table } from '../ui/table.tsx'

/** Short amounts need more digits: a call may cost less than a cent. */
export function formatDollars(dollars: number): string {
  return `$${dollars.toFixed(dollars > 0 && dollars < 0.01 ? 6 : 2)}`
}

export const budgetHead = ['Budget of', 'Limit', 'Spent', 'Reserved', 'Left', 'State']

export function budgetCells(budget: Budget): readonly string[] {
  const { scope, target_name, target_id, monthly_limit, extra, spent, reserved, left, state } = budget
  const limit = formatDollars(monthly_limit) + (extra === 0 ? '' : ` + ${formatDollars(extra)}`)
  const of = scope === 'user' ? 'user' : 'organisation'
  return [`${target_name ?? target_id} (${of})`, limit, ...[spent, reserved, left].map(formatDollars), state]
}

/** What the caller may spend on models in this month, and the caller's requests for more. */
export function OwnBudgets() {
  const budgets = useAnswer(['budgets', 'own'], (signal) => sandboxServer.call('listOwnBudgets', { signal }))
  const requests = useAnswer(['budgets', 'own', 'requests'], (signal) =>
    sandboxServer.call('listOwnBudgetRequests', { query: { limit: '20' }, signal }),
  )
  const [isAsked, setIsAsked] = useState(false)
  const ask = useAction(
    ['budgets'],
    (body: { amount: number; reason: string; scope: Budget['scope'] }) =>
      sandboxServer.call('requestBudget', { body }),
    () => setIsAsked(true),
  )
  const items = budgets.data?.items ?? []
  if (items.length === 0) return null
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const scope = form.get('scope') === 'organization' ? 'organization' : 'user'
    ask.mutate({ amount: Number(form.get('amount')), reason: String(form.get('reason')), scope })
    event.currentTarget.reset()
  }
  return (
    <>
      <h2>Budget of this month</h2>
      {items.map(
        ({ scope, message }) =>
          message !== null && (
            <p key={scope} role="status">
              {message}
            </p>
          ),
      )}
      <Table
        query={budgets}
        empty="No budget"
        head={budgetHead}
        rows={items.map((item) => ({ key: item.scope, cells: budgetCells(item) }))}
      />
      {(requests.data?.items.length ?? 0) > 0 && (
        <Table
          query={requests}
          empty="No requests"
          head={['Asked for', 'Reason', 'Answer', 'When']}
          rows={(requests.data?.items ?? []).map(
            ({ id, amount, reason, status, granted, note, created_at }) => ({
              key: id,
              cells: [
                formatDollars(amount),
                reason,
                [status, granted === null ? '' : formatDollars(granted), note ?? ''].join(' ').trim(),
                formatAgo(Date.parse(created_at)),
              ],
            }),
          )}
        />
      )}
      <form className="stack" onSubmit={submit}>
        <label htmlFor="budget-amount">Ask for more in this month, in dollars</label>
        <input id="budget-amount" name="amount" type="number" min="0.01" step="0.01" required />
        <label htmlFor="budget-reason">What it is for</label>
        <input id="budget-reason" name="reason" required maxLength={1000} />
        <label htmlFor="budget-scope">Budget</label>
        <select id="budget-scope" name="scope">
          {items.map(({ scope, target_name, target_id }) => (
            <option key={scope} value={scope}>
              {target_name ?? target_id}
            </option>
          ))}
        </select>
        <div className="buttons">
          <button type="submit" className="primary" disabled={ask.isPending}>
            Ask
          </button>
        </div>
        {isAsked && <p role="status">An administrator answers your request; the answer is shown here.</p>}
      </form>
    </>
  )
}
