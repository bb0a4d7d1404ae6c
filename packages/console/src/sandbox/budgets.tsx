import type { Budget, BudgetRequest } from '@slipway/protocol'
import type { FormEvent } from 'react'
import { useAction, useAnswer } from '../api/queries.ts'
import { sandboxServer } from '../api/session.ts'
import { formatAgo } from '../ui/format.ts'
import { Table } from '../ui/table.tsx'
import { budgetCells, budgetHead, formatDollars } from './own-budgets.tsx'

type Target = Pick<Budget, 'scope' | 'target_id'>

/** What users and organisations may spend on models in a month, and requests for more; for administrators. */
export function Budgets() {
  const budgets = useAnswer(['budgets'], (signal) => sandboxServer.call('listBudgets', { signal }))
  const remove = useAction(['budgets'], ({ scope, target_id }: Target) =>
    sandboxServer.call('removeBudget', { params: { scope, target_id } }),
  )
  return (
    <>
      <h1>Budgets</h1>
      <Requests />
      <h2>Budgets of this month</h2>
      <Table
        query={budgets}
        empty="No budgets"
        head={[...budgetHead, '']}
        rows={(budgets.data?.items ?? []).map((item) => ({
          key: `${item.scope} ${item.target_id}`,
          cells: [
            ...budgetCells(item),
            <button key="remove" type="button" className="danger" onClick={() => remove.mutate(item)}>
              Remove
            </button>,
          ],
        }))}
      />
      <SetBudget />
    </>
  )
}

function Requests() {
  const requests = useAnswer(['budgets', 'requests'], (signal) =>
    sandboxServer.call('listBudgetRequests', { query: { limit: '50', status: 'open' }, signal }),
  )
  const answer = useAction(['budgets'], ({ id, isGranted }: { id: string; isGranted: boolean }) =>
    sandboxServer.call(isGranted ? 'grantBudgetRequest' : 'denyBudgetRequest', {
      params: { request_id: id },
      body: {},
    }),
  )
  const buttons = ({ id }: BudgetRequest) => (
    <div key="answer" className="buttons">
      <button type="button" className="primary" onClick={() => answer.mutate({ id, isGranted: true })}>
        Grant
      </button>
      <button type="button" onClick={() => answer.mutate({ id, isGranted: false })}>
        Deny
      </button>
    </div>
  )
  return (
    <>
      <h2>Requests for more</h2>
      <Table
        query={requests}
        empty="No open requests"
        head={['By', 'Asks for', 'Budget', 'Reason', 'When', '']}
        rows={(requests.data?.items ?? []).map((item) => ({
          key: item.id,
          cells: [
            item.user_name ?? item.user_id.slice(0, 8),
            formatDollars(item.amount),
            item.scope === 'user' ? 'own' : 'organisation',
            item.reason,
            formatAgo(Date.parse(item.created_at)),
            buttons(item),
          ],
        }))}
      />
    </>
  )
}

function SetBudget() {
  const query = { limit: '100' }
  const users = useAnswer(['users'], (signal) => sandboxServer.call('listUsers', { query, signal }))
  const organizations = useAnswer(['users', 'organizations'], (signal) =>
    sandboxServer.call('listOrganizations', { query, signal }),
  )
  const set = useAction(['budgets'], ({ monthly_limit, ...params }: Target & { monthly_limit: number }) =>
    sandboxServer.call('setBudget', { params, body: { monthly_limit } }),
  )
  const submit = (event: FormEvent<HTMLFormElement>) => {
    event.preventDefault()
    const form = new FormData(event.currentTarget)
    const [scope = '', target_id = ''] = String(form.get('target')).split(' ')
    const isUser = scope === 'user'
    set.mutate({
      scope: isUser ? 'user' : 'organization',
      target_id,
      monthly_limit: Number(form.get('limit')),
    })
  }
  return (
    <form className="stack" onSubmit={submit}>
      <label htmlFor="budget-target">User or organisation</label>
      <select id="budget-target" name="target">
        {(users.data?.items ?? []).map(({ id, name, email }) => (
          <option key={id} value={`user ${id}`}>
            {name ?? email ?? id}
          </option>
        ))}
        {(organizations.data?.items ?? []).map(({ id, name }) => (
          <option key={id} value={`organization ${id}`}>
            {name} (organisation)
          </option>
        ))}
      </select>
      <label htmlFor="budget-limit">Dollars a month</label>
      <input id="budget-limit" name="limit" type="number" min="0" step="0.01" required />
      <div className="buttons">
        <button type="submit" className="primary" disabled={set.isPending}>
          Set
        </button>
      </div>
    </form>
  )
}
