import type { Budget, BudgetRequest } from '@slipway/protocol'
import type { SandboxServerContext } from '../../context/command-context.ts'
import { findOrgId, findUserId } from '../../context/find-user.ts'
import { relativeTime } from '../../output/relative-time.ts'
import { sanitizeLine } from '../../output/sanitize.ts'
import { print, printNote, printResult, table } from '../../output/terminal.ts'

export interface BudgetFlags {
  /** The name is that of an organisation. */
  readonly org: boolean
}

export interface RequestsFlags {
  /** Those of all users; administrators may. */
  readonly allUsers: boolean
  readonly status?: BudgetRequest['status']
}

/** Shows the budgets that apply to the caller. */
export async function showBudgetsCommand(context: SandboxServerContext): Promise<void> {
  const { items } = await context.client.call('listOwnBudgets', { signal: context.signal })
  await printBudgets(context, items)
  if (!context.isJson && items.length === 0) printNote('No budget applies to you.')
}

/** Lists the budgets of all users and organisations; administrators may. */
export async function listBudgetsCommand(context: SandboxServerContext): Promise<void> {
  const { items } = await context.client.call('listBudgets', { signal: context.signal })
  await printBudgets(context, items)
}

/** Sets what a user or an organisation may spend in a month; named by id or name. */
export async function setBudgetCommand(
  context: SandboxServerContext,
  name: string,
  monthly_limit: number,
  flags: BudgetFlags,
): Promise<void> {
  const params = await findTarget(context, name, flags)
  const budget = await context.client.call('setBudget', {
    params,
    body: { monthly_limit },
    signal: context.signal,
  })
  await printBudgets(context, [budget])
}

export async function removeBudgetCommand(
  context: SandboxServerContext,
  name: string,
  flags: BudgetFlags,
): Promise<void> {
  const params = await findTarget(context, name, flags)
  await context.client.call('removeBudget', { params, signal: context.signal })
  await printResult(context.isJson, { ...params, status: 'removed' }, 'removed')
}

/** Asks for more in this month. */
export async function requestBudgetCommand(
  { client, isJson, signal }: SandboxServerContext,
  amount: number,
  { reason, org }: BudgetFlags & { readonly reason: string },
): Promise<void> {
  const body = { amount, reason, scope: scopeOf(org) }
  const request = await client.call('requestBudget', { body, signal })
  await printResult(isJson, request, sanitizeLine(request.id))
  if (!isJson) printNote('An administrator answers it: "slipway budgets requests" shows the answer.')
}

/** Lists requests for more, the newest first. */
export async function listBudgetRequestsCommand(
  { client, isJson, signal }: SandboxServerContext,
  { allUsers, status }: RequestsFlags,
): Promise<void> {
  let page_id: string | undefined
  let isFirst = true
  do {
    const operation = allUsers ? 'listBudgetRequests' : 'listOwnBudgetRequests'
    const page = await client.call(operation, { query: { limit: '100', page_id, status }, signal })
    if (isJson) await print(page.items.map((item) => `${JSON.stringify(item)}\n`).join(''))
    else await print(requestTable(page.items, isFirst))
    isFirst = false
    page_id = page.next_page_id ?? undefined
  } while (page_id !== undefined)
}

/** Grants a request, with what was asked for unless another amount is given. */
export async function grantBudgetCommand(
  context: SandboxServerContext,
  request_id: string,
  { amount, note }: { readonly amount?: number; readonly note?: string },
): Promise<void> {
  const { client, isJson, signal } = context
  const answered = await client.call('grantBudgetRequest', {
    params: { request_id },
    body: { amount, note },
    signal,
  })
  const { granted, scope, user_name, user_id } = answered
  const of = scope === 'organization' ? 'an organisation, asked for by ' : ''
  await printResult(
    isJson,
    answered,
    `granted ${formatDollars(granted ?? 0)} to ${of}${sanitizeLine(user_name ?? user_id)}`,
  )
}

export async function denyBudgetCommand(
  { client, isJson, signal }: SandboxServerContext,
  request_id: string,
  { note }: { readonly note?: string },
): Promise<void> {
  const answered = await client.call('denyBudgetRequest', { params: { request_id }, body: { note }, signal })
  await printResult(isJson, answered, 'denied')
}

async function findTarget(context: SandboxServerContext, name: string, { org }: BudgetFlags) {
  const target_id = org ? await findOrgId(context, name) : await findUserId(context, name)
  return { scope: scopeOf(org), target_id } as const
}

function scopeOf(isOrg: boolean): Budget['scope'] {
  return isOrg ? 'organization' : 'user'
}

async function printBudgets({ isJson }: SandboxServerContext, items: readonly Budget[]): Promise<void> {
  if (isJson) return await print(items.map((item) => `${JSON.stringify(item)}\n`).join(''))
  if (items.length > 0) await print(budgetTable(items))
  for (const { message } of items) if (message !== null) printNote(sanitizeLine(message))
}

export function budgetTable(items: readonly Budget[]): string {
  const rows = items.map((item) => {
    const { scope, target_name, target_id, month, monthly_limit, extra, spent, reserved, left, state } = item
    const limit = formatDollars(monthly_limit) + (extra === 0 ? '' : ` +${formatDollars(extra)}`)
    const amounts = [limit, ...[spent, reserved, left].map(formatDollars)]
    return [scope, month, ...amounts, state, sanitizeLine(target_name ?? target_id)]
  })
  return table(
    rows,
    [14, 9, 18, 11, 11, 11, 11],
    ['OF', 'MONTH', 'LIMIT', 'SPENT', 'RESERVED', 'LEFT', 'STATE', 'NAME'],
  )
}

function requestTable(items: readonly BudgetRequest[], hasHead: boolean): string {
  const rows = items.map(
    ({ id, status, scope, amount, granted, user_name, user_id, reason, note, created_at }) => [
      sanitizeLine(id),
      status,
      scope,
      formatDollars(amount) + (granted === null ? '' : ` → ${formatDollars(granted)}`),
      relativeTime(String(created_at)),
      sanitizeLine(user_name ?? user_id),
      sanitizeLine(note === null ? reason : `${reason} (${note})`),
    ],
  )
  const head = ['ID', 'STATUS', 'OF', 'AMOUNT', 'ASKED', 'BY', 'REASON']
  return table(rows, [38, 9, 14, 19, 12, 16], hasHead ? head : undefined)
}

function formatDollars(dollars: number): string {
  return `$${dollars.toFixed(dollars > 0 && dollars < 0.01 ? 6 : 2)}`
}
