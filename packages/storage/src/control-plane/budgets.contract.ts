import fc from 'fast-check'
import { expect, test } from 'vitest'
import { AuditTrail } from './audit-trail.ts'
import type { BudgetRequestRow, BudgetRow, Reservation } from './budgets.ts'
import { budgetId } from './budgets.ts'
import type { ControlPlaneStore } from './control-plane-store.ts'
import { orgRow, rowIds, userRow, walkPages } from './testing/sample-rows.ts'

interface Opened extends AsyncDisposable {
  /** Of one database: one, or where servers share it several. */
  readonly stores: readonly [ControlPlaneStore, ...ControlPlaneStore[]]
}

const month = '2026-01'

function budgetRow(members: Partial<BudgetRow> = {}): BudgetRow {
  const { scope = 'user', target = 'u' } = members
  const about = { id: budgetId(scope, target), scope, target, set_by: 'root', created_at: 1, updated_at: 1 }
  return { ...about, monthly_limit: 100, ...members }
}

function reservation(members: Partial<Reservation> & { readonly id: string }): Reservation {
  return { sandbox: 's', user: 'u', org: null, month, wanted: 60, least: 20, now: 5, ...members }
}

function requestRow(members: Partial<BudgetRequestRow> = {}): BudgetRequestRow {
  const answer = { granted: null, note: null, answered_by: null, answered_at: null }
  const about = { id: 'r', user: 'u', scope: 'user', target: 'u', amount: 50, reason: 'More tests' } as const
  return { ...about, status: 'open', ...answer, created_at: 1, ...members }
}

async function addTargets({ users }: ControlPlaneStore): Promise<void> {
  for (const id of ['u', 'v']) await users.addUser(userRow({ id }))
  await users.addOrg(orgRow({ id: 'o' }))
}

/** What the budgets of every control plane guarantee. */
export function budgetContract(open: () => Promise<Opened>): void {
  test('calls reserve what is left of a budget, and settle once', async () => {
    await using opened = await open()
    const [{ budgets }] = opened.stores
    await addTargets(opened.stores[0])
    expect(await budgets.reserve(reservation({ id: '0' }))).toEqual({ kind: 'unlimited' })
    await budgets.set(budgetRow(), month, 0)
    expect(await budgets.reserve(reservation({ id: '1' }))).toMatchObject({ kind: 'granted', amount: 60 })
    // The answer was lost.
    expect(await budgets.reserve(reservation({ id: '1' }))).toMatchObject({ kind: 'granted', amount: 60 })
    const other = reservation({ id: '1', sandbox: 'other' })
    await expect(budgets.reserve(other)).rejects.toMatchObject({ code: 'conflict' })
    // Half of what is left, and no less than is of use.
    expect(await budgets.reserve(reservation({ id: '2' }))).toMatchObject({ amount: 20 })
    expect(await budgets.reserve(reservation({ id: '3' }))).toMatchObject({ amount: 20 })
    const refused = await budgets.reserve(reservation({ id: '4' }))
    expect(refused).toMatchObject({ kind: 'refused', budget: { spent: 0, reserved: 100, set_by: 'root' } })
    expect(await budgets.reserve(reservation({ id: '5', wanted: 0, least: 0 }))).toMatchObject({ amount: 0 })
    const settled = { sandbox: 's', now: 6 }
    for (const _ of ['once', 'repeated'])
      expect(await budgets.settle({ ...settled, id: '1', cost: 7 })).toBe(true)
    expect(await budgets.settle({ ...settled, id: '2', cost: undefined })).toBe(true)
    expect(await budgets.settle({ ...settled, id: '3', sandbox: 'other', cost: 1 })).toBe(false)
    expect(await budgets.settle({ ...settled, id: '9', cost: 1 })).toBe(false)
    expect(await budgets.list(month)).toMatchObject([{ spent: 27, reserved: 20 }])
    expect(await budgets.list('2026-02')).toMatchObject([{ spent: 0, reserved: 0 }])
    expect(await budgets.reserve(reservation({ id: '6' }))).toMatchObject({ amount: 26 })
  })

  test('the organisation has a budget too: the least that is left counts, and both are charged', async () => {
    await using opened = await open()
    const [{ budgets }] = opened.stores
    await addTargets(opened.stores[0])
    await budgets.set(budgetRow(), month, 0)
    await budgets.set(budgetRow({ scope: 'organization', target: 'o', monthly_limit: 50 }), month, 0)
    await budgets.reserve(reservation({ id: '1', org: 'o', wanted: 40 }))
    expect(await budgets.reserve(reservation({ id: '2', user: 'v', org: 'o' }))).toMatchObject({
      kind: 'refused',
      budget: { scope: 'organization', target: 'o' },
    })
    await budgets.settle({ id: '1', sandbox: 's', cost: 45, now: 6 })
    const both = [{ id: 'organization:o' }, { id: 'user:u' }].map((one) => ({
      ...one,
      spent: 45,
      reserved: 0,
    }))
    expect(await budgets.list(month)).toMatchObject(both)
    expect(await budgets.list(month, ['user:u', 'user:v'])).toHaveLength(1)
  })

  test('untrue costs of an agent server, and those that come after a removal, break no list', async () => {
    await using opened = await open()
    const [{ budgets, users }] = opened.stores
    await addTargets(opened.stores[0])
    await budgets.set(budgetRow(), month, 0)
    await budgets.set(budgetRow({ scope: 'organization', target: 'o' }), month, 0)
    for (const id of ['1', '2', '3']) {
      await budgets.reserve(reservation({ id, wanted: 0, least: 0 }))
      await budgets.settle({ id, sandbox: 's', cost: 8e15, now: 6 })
    }
    const [, ofUser] = await budgets.list(month)
    expect(ofUser?.spent).toBeGreaterThanOrEqual(8e15)
    await budgets.reserve(reservation({ id: '4', user: 'v', org: 'o' }))
    await users.removeOrg('o')
    await budgets.settle({ id: '4', sandbox: 's', cost: 1, now: 6 })
    await users.addOrg(orgRow({ id: 'o' }))
    const again = budgetRow({ scope: 'organization', target: 'o' })
    expect(await budgets.set(again, month, 0)).toMatchObject({ spent: 0, reserved: 0 })
  })

  test('a new budget knows what was used before, a changed or repeated one what was spent', async () => {
    await using opened = await open()
    const [{ budgets, users }] = opened.stores
    await addTargets(opened.stores[0])
    await expect(budgets.set(budgetRow({ target: 'x' }), month, 0)).rejects.toMatchObject({
      code: 'not_found',
    })
    expect(await budgets.set(budgetRow(), month, 30)).toMatchObject({ spent: 30 })
    const changed = budgetRow({ monthly_limit: 40, set_by: 'ann', updated_at: 9 })
    expect(await budgets.set(changed, month, 90)).toMatchObject({ ...changed, spent: 30 })
    expect(await budgets.remove('user:u')).toBe(true)
    expect(await budgets.remove('user:u')).toBe(false)
    expect(await budgets.set(budgetRow(), month, 20)).toMatchObject({ spent: 30 })
    await users.removeUser('u')
    expect(await budgets.list(month)).toEqual([])
    await users.addUser(userRow({ id: 'u' }))
    expect(await budgets.set(budgetRow(), month, 0)).toMatchObject({ spent: 0 })
  })

  test('a request is answered once, and what is granted counts for its month', async () => {
    await using opened = await open()
    const [{ budgets, users }] = opened.stores
    await addTargets(opened.stores[0])
    await budgets.set(budgetRow(), month, 0)
    await budgets.addRequest(requestRow())
    await expect(budgets.addRequest(requestRow({ id: 'q' }))).rejects.toMatchObject({ code: 'conflict' })
    await budgets.addRequest(requestRow({ id: 's', scope: 'organization', target: 'o', created_at: 2 }))
    const answer = { answered_by: 'root', note: null, month, now: 7 }
    const granted = await budgets.answerRequest('r', { ...answer, granted: 25, note: 'Once' })
    const after = {
      status: 'granted',
      granted: 25,
      note: 'Once',
      answered_by: 'root',
      answered_at: 7,
    } as const
    expect(granted).toEqual(requestRow(after))
    expect(await budgets.getRequest('r')).toEqual(granted)
    const repeated = budgets.answerRequest('r', { ...answer, granted: 25 })
    await expect(repeated).rejects.toMatchObject({ code: 'conflict' })
    // The organisation has no budget that could be raised.
    const missing = budgets.answerRequest('s', { ...answer, granted: 1 })
    await expect(missing).rejects.toMatchObject({ code: 'not_found' })
    await budgets.answerRequest('s', { ...answer, granted: null })
    expect(await budgets.list(month)).toMatchObject([{ monthly_limit: 100, extra: 25 }])
    expect(await budgets.list('2026-02')).toMatchObject([{ extra: 0 }])
    await budgets.addRequest(requestRow({ id: 't', created_at: 3 }))
    const walk = (filter: object) => walkPages((query) => budgets.searchRequests({ ...filter, ...query }), 1)
    expect(rowIds(await walk({}))).toEqual(['t', 's', 'r'])
    expect(rowIds(await walk({ user: 'u', status: 'open' }))).toEqual(['t'])
    expect(rowIds(await walk({ user: 'v' }))).toEqual([])
    await users.removeUser('u')
    expect(rowIds(await walk({}))).toEqual([])
  })

  test('a change of a budget is in the audit, calls are not', async () => {
    await using opened = await open()
    const [{ budgets, audit }] = opened.stores
    await addTargets(opened.stores[0])
    const route = { method: 'PUT', route: '/budgets', target_type: 'budget', request_id: 'r' }
    await new AuditTrail({ ...route, action: 'setBudget' }, 7).run(() => budgets.set(budgetRow(), month, 0))
    await budgets.reserve(reservation({ id: '1' }))
    const { items } = await audit.search({ limit: 10 })
    expect(items).toMatchObject([{ target: 'u', before: null, after: { scope: 'user', monthly_limit: 100 } }])
  })

  test('what is spent and reserved never passes a limit, whatever is interleaved or dies', async () => {
    await using opened = await open()
    const { stores } = opened
    await addTargets(stores[0])
    let run = 0
    const call = fc.record({
      store: fc.nat(stores.length - 1),
      user: fc.constantFrom('u', 'v'),
      wanted: fc.integer({ min: 0, max: 70 }),
      end: fc.constantFrom('settled', 'settled twice', 'dead'),
      share: fc.integer({ min: 0, max: 100 }),
    })
    const property = fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 12 }), async (calls) => {
      run += 1
      const now = `run-${run}`
      const ids = [budgetRow(), budgetRow({ scope: 'organization', target: 'o', monthly_limit: 150 })]
      for (const row of ids) await stores[0].budgets.set(row, now, 0)
      const assertBelow = async () => {
        for (const { monthly_limit, spent, reserved } of await stores[0].budgets.list(now))
          expect(spent + reserved).toBeLessThanOrEqual(monthly_limit)
      }
      const costs = calls.map(async ({ store, user, wanted, end, share }, at) => {
        const { budgets } = stores[store] ?? stores[0]
        const id = `${run}-${at}`
        const least = Math.floor(wanted / 3)
        const got = await budgets.reserve(reservation({ id, user, org: 'o', month: now, wanted, least }))
        await assertBelow()
        if (got.kind !== 'granted') return 0
        if (end === 'dead') return got.amount
        const cost = Math.floor((got.amount * share) / 100)
        for (const _ of end === 'settled twice' ? [1, 2] : [1])
          await budgets.settle({ id, sandbox: 's', cost, now: 6 })
        return cost
      })
      const sum = (await Promise.all(costs)).reduce((all, cost) => all + cost, 0)
      await assertBelow()
      const [ofOrg] = await stores[0].budgets.list(now, ['organization:o'])
      expect((ofOrg?.spent ?? 0) + (ofOrg?.reserved ?? 0)).toBe(sum)
    })
    await fc.assert(property, { numRuns: 25 })
  })
}
