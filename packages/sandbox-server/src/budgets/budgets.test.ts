import type { SandboxRow } from '@slipway/storage/control-plane'
import { expect, onTestFinished, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { budgetHandlers } from './budget-handlers.ts'
import { Budgets } from './budgets.ts'
import { ownBudgetHandlers } from './own-budget-handlers.ts'
import { reservationHandlers } from './reservation-handlers.ts'

const start = Date.parse('2026-03-10T12:00:00Z') * 1000
const user = { email: null, org: null, is_admin: false, daily_conversation_limit: null, created_at: 1 }
const call = { model: 'openai/x', input_tokens: 1000, max_output_tokens: 10_000 }
/** $0.10 and $1.00. */
const price = { input_cost_micros: 100_000, output_cost_micros: 1_000_000 }
const noPrice = { input_cost_micros: null, output_cost_micros: null }

async function open({ defaultPrice }: { readonly defaultPrice?: { input: number; output: number } } = {}) {
  let at = start
  const opened = await openTestControlPlane(() => at)
  onTestFinished(() => opened[Symbol.asyncDispose]())
  const { controlPlane } = opened
  const { users } = controlPlane
  for (const id of ['ann', 'ben']) await users.addUser({ ...user, id, name: `The ${id}` })
  await users.addUser({ ...user, id: 'root', name: 'Ada', is_admin: true })
  await users.addOrg({ id: 'o', name: 'Org', daily_conversation_limit: null, created_at: 1 })
  await users.addMember('o', 'ann')
  const now = () => at
  const budgets = new Budgets({ controlPlane, defaultPrice, now })
  const handlers = {
    ...budgetHandlers({ controlPlane, budgets, now }),
    ...ownBudgetHandlers({ controlPlane, budgets, now }),
  }
  const sandboxHandlers = reservationHandlers({ controlPlane, budgets, defaultPrice, now })
  const ask = (owner: string, more: object = {}) =>
    ({
      caller: { owner, org: undefined, boundOrg: null },
      query: { limit: 10 },
      params: {},
      body: {},
      ...more,
    }) as never
  const row = { id: 'sb', owner: 'ann', org: null, wanted: 'running' }
  const asSandbox = (id: string, body: object, members: Partial<SandboxRow> = {}, sandbox_id = 'sb') =>
    ({
      caller: { sandbox: { ...row, ...members } },
      params: { sandbox_id, reservation_id: id },
      body,
    }) as never
  return {
    controlPlane,
    handlers,
    ask,
    later: (micros: number) => {
      at += micros
    },
    set: async (scope: string, target_id: string, monthly_limit: number) =>
      (await handlers.setBudget(ask('root', { params: { scope, target_id }, body: { monthly_limit } }))).json,
    reserve: async (id: string, body: object, members?: Partial<SandboxRow>, sandbox?: string) =>
      (await sandboxHandlers.reserveBudget(asSandbox(id, { ...call, ...body }, members, sandbox))).json,
    settle: async (id: string, body: object) =>
      (await sandboxHandlers.settleBudget(asSandbox(id, { input_tokens: 1, output_tokens: 1, ...body })))
        .json,
    own: async (owner = 'ann') => (await handlers.listOwnBudgets(ask(owner))).json.items,
  }
}

test('a call is granted, shortened, and refused with what is spent, whom to ask and the command', async () => {
  const server = await open()
  for (const one of [price, noPrice])
    expect(await server.reserve('0', one)).toMatchObject({ status: 'unlimited' })
  await server.set('user', 'ann', 2)
  expect(await server.reserve('1', price)).toEqual({
    status: 'granted',
    max_output_tokens: 10_000,
    message: null,
  })
  // $0.90 are left: half of them for this call, which is $0.35 for its output.
  expect(await server.reserve('2', price)).toMatchObject({ status: 'granted', max_output_tokens: 3500 })
  await server.settle('1', { cost_micros: 1_500_000 })
  const refused = await server.reserve('3', price)
  expect(refused).toMatchObject({ status: 'refused', max_output_tokens: null })
  expect(refused.message).toBe(
    'The budget of the user The ann for 2026-03: $1.50 spent and $0.45 reserved for calls of $2.00. The next call may cost $0.20. Ask Ada for more: slipway budgets request DOLLARS --reason TEXT. The budget resets on 2026-04-01 (UTC).',
  )
  const [budget] = await server.own()
  expect(budget).toMatchObject({ spent: 1.5, reserved: 0.45, left: 0.05, state: 'warning', ask: 'Ada' })
  expect(budget?.message).toContain('slipway budgets request')
  server.later(31 * 86_400_000_000)
  expect(await server.own()).toMatchObject([{ month: '2026-04', spent: 0, state: 'ok', message: null }])
  expect(await server.own('ben')).toEqual([])
})

test('a model without a price is refused where a budget applies, or counts at the default price', async () => {
  const without = await open()
  await without.set('user', 'ann', 2)
  const { status, message } = await without.reserve('1', noPrice)
  expect(status).toBe('refused')
  expect(message).toMatch(/openai\/x has no known price.*ask Ada to set SLIPWAY_BUDGET_DEFAULT_PRICE/)
  const server = await open({ defaultPrice: { input: 10, output: 50 } })
  await server.set('user', 'ann', 2)
  expect(await server.reserve('1', noPrice)).toMatchObject({ status: 'granted', max_output_tokens: 10_000 })
  expect(await server.own()).toMatchObject([{ reserved: 0.51 }])
  await server.settle('1', { cost_micros: null, input_tokens: 1000, output_tokens: 100 })
  expect(await server.own()).toMatchObject([{ reserved: 0, spent: 0.015 }])
})

test('only the sandbox itself reserves, while a user runs it', async () => {
  const server = await open()
  const reserve = (members: Partial<SandboxRow>, sandbox?: string) =>
    server.reserve('1', price, members, sandbox)
  await expect(reserve({}, 'other')).rejects.toMatchObject({ code: 'forbidden' })
  await expect(reserve({ owner: null })).rejects.toMatchObject({ code: 'unauthorized' })
  await expect(reserve({ wanted: 'paused' })).rejects.toMatchObject({ code: 'unauthorized' })
  await expect(server.settle('1', { cost_micros: 1 })).rejects.toMatchObject({ code: 'not_found' })
})

test('a person asks for more, and an administrator grants or denies it', async () => {
  const server = await open()
  const { handlers, ask } = server
  const request = (owner: string, body: object) => handlers.requestBudget(ask(owner, { body }))
  const wish = { amount: 10, reason: 'Tests', scope: 'user' }
  await expect(request('ann', wish)).rejects.toMatchObject({ code: 'not_found' })
  await server.set('user', 'ann', 2)
  const { json: asked } = await request('ann', wish)
  expect(asked).toMatchObject({ status: 'open', amount: 10, user_name: 'The ann', granted: null })
  await expect(request('ann', wish)).rejects.toMatchObject({ code: 'conflict' })
  const answer = { params: { request_id: asked.id }, body: { amount: 5, note: 'This month' } }
  const bound = { caller: { owner: 'x', boundOrg: 'p' } }
  const foreign = handlers.grantBudgetRequest(ask('x', { ...answer, ...bound }))
  await expect(foreign).rejects.toMatchObject({ code: 'not_found' })
  const { json: granted } = await handlers.grantBudgetRequest(ask('root', answer))
  expect(granted).toMatchObject({ status: 'granted', granted: 5, note: 'This month' })
  await expect(handlers.denyBudgetRequest(ask('root', answer))).rejects.toMatchObject({ code: 'conflict' })
  expect(await server.own()).toMatchObject([{ monthly_limit: 2, extra: 5, left: 7 }])
  const { json: second } = await request('ann', wish)
  await handlers.denyBudgetRequest(ask('root', { params: { request_id: second.id }, body: {} }))
  server.later(1)
  const { json: own } = await handlers.listOwnBudgetRequests(ask('ann'))
  expect(own.items.map(({ status }) => status).sort()).toEqual(['denied', 'granted'])
  expect((await handlers.listOwnBudgetRequests(ask('ben'))).json.items).toEqual([])
})

test('a key of an organisation changes budgets of its users, and sees that of the organisation', async () => {
  const server = await open()
  const { handlers, ask } = server
  for (const [scope, target, limit] of [
    ['organization', 'o', 9],
    ['user', 'ann', 2],
    ['user', 'ben', 3],
  ] as const)
    await server.set(scope, target, limit)
  const caller = { caller: { owner: 'boss', boundOrg: 'o' } }
  const seen = (await handlers.listBudgets(ask('boss', caller))).json.items
  expect(seen.map(({ target_id }) => target_id)).toEqual(['o', 'ann'])
  const set = (scope: string, target_id: string) =>
    handlers.setBudget(ask('boss', { ...caller, params: { scope, target_id }, body: { monthly_limit: 4 } }))
  expect((await set('user', 'ann')).json).toMatchObject({ monthly_limit: 4, ask: 'an administrator' })
  await expect(set('user', 'ben')).rejects.toMatchObject({ code: 'not_found' })
  await expect(set('organization', 'o')).rejects.toMatchObject({ code: 'forbidden' })
  const remove = (target_id: string) =>
    handlers.removeBudget(ask('root', { params: { scope: 'user', target_id } }))
  expect((await remove('ben')).json).toEqual({ success: true })
  await expect(remove('ben')).rejects.toMatchObject({ code: 'not_found' })
})

test('a new budget counts what was used in its month before', async () => {
  const server = await open()
  const { conversations } = server.controlPlane
  const row = { parent: null, title: null, status: null, members: '{}', created_at: 1, updated_at: 1 }
  await conversations.add({ ...row, id: 'c', owner: 'ann', org: 'o', sandbox: 's' })
  const metrics = { accumulated_cost: 1.25, accumulated_token_usage: null }
  await conversations.update('c', { members: JSON.stringify({ llm_model: 'x/y', metrics }) })
  expect(await server.set('user', 'ann', 2)).toMatchObject({ spent: 1.25, left: 0.75 })
  expect(await server.set('organization', 'o', 1)).toMatchObject({ spent: 1.25, left: 0, state: 'exhausted' })
  expect(await server.set('user', 'ben', 1)).toMatchObject({ spent: 0 })
})

test('a new budget counts models without a price at the default price', async () => {
  const server = await open({ defaultPrice: { input: 2, output: 10 } })
  const { conversations } = server.controlPlane
  const row = { parent: null, title: null, status: null, members: '{}', created_at: 1, updated_at: 1 }
  const accumulated_token_usage = { prompt_tokens: 300_000, completion_tokens: 40_000 }
  for (const [id, cost] of Object.entries({ priced: 0.5, unpriced: 0 })) {
    await conversations.add({ ...row, id, owner: 'ann', org: 'o', sandbox: 's' })
    const metrics = { accumulated_cost: cost, accumulated_token_usage }
    await conversations.update(id, { members: JSON.stringify({ llm_model: `x/${id}`, metrics }) })
  }
  expect(await server.set('organization', 'o', 5)).toMatchObject({ spent: 1.5 })
  expect(await server.set('user', 'ann', 5)).toMatchObject({ spent: 1.5 })
  expect(await server.set('user', 'ben', 5)).toMatchObject({ spent: 0 })
})
