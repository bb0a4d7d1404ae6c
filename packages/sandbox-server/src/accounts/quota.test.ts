import { randomUUID } from 'node:crypto'
import { must } from '@slipway/protocol'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Quota } from './quota.ts'

const noon = Date.UTC(2026, 0, 31, 12) * 1000
const task = {
  ...{ owner: 'u', org: null, status: 'WORKING', detail: null, conversation: null, sandbox: null },
  ...{ agent_url: null, request: '{}', created_at: 1, updated_at: 1 },
}
const midnight = Date.UTC(2026, 1, 1) * 1000

interface Limits {
  readonly server?: number
  readonly org?: number | null
  readonly user?: number | null
  readonly isExempt?: boolean
}

async function open(limits: Limits) {
  const fixture = await openTestControlPlane()
  const { users } = fixture.controlPlane
  const org = randomUUID()
  await users.addOrg({ id: org, name: 'O', daily_conversation_limit: limits.org ?? null, created_at: noon })
  const row = { name: null, email: null, org, is_admin: false, created_at: noon }
  await users.addUser({ id: 'u', ...row, daily_conversation_limit: limits.user ?? null })
  const clock = { now: noon }
  const quota = new Quota({
    users,
    rows: fixture.controlPlane.quota,
    limit: limits.server ?? null,
    exemptOrgs: limits.isExempt ? [org] : [],
    now: () => clock.now,
  })
  const scope = { owner: 'u', org }
  const { startTasks } = fixture.controlPlane
  return {
    ...{ fixture, quota, clock, scope, users },
    /** Starts a conversation. Resolves with its task. */
    async start() {
      const slot = must(await quota.slotOf(scope), 'the slot of an owner')
      const row = { ...task, id: randomUUID(), quota_day: slot.day }
      const { isAdded, used } = await startTasks.add(row, { dailyLimit: slot.limit ?? undefined })
      if (!isAdded) throw quota.refusal(slot, used)
      return row
    },
    /** The start fails; it may be told so twice. */
    async fail(row: { readonly id: string } | null | undefined) {
      for (let n = 0; n < 2; n++) await startTasks.update(String(row?.id), { quota_day: null })
    },
  }
}

test.for([
  [{ server: 1 }, 1],
  [{ server: 0 }, 0],
  [{}, null],
  [{ server: -1 }, null],
  [{ server: 1, org: 2 }, 2],
  [{ server: 1, org: -1 }, null],
  [{ server: 1, org: 2, user: 3 }, 3],
  [{ server: 1, org: 2, user: -1 }, null],
  [{ server: 5, user: 1 }, 1],
  [{ server: 1, isExempt: true }, null],
  [{ server: 1, org: 2, isExempt: true }, 2],
  [{ server: 1, user: 3, isExempt: true }, 3],
] as const)('of %o the limit is %s, and every start counts', async ([limits, limit]) => {
  const { fixture, quota, scope, start } = await open(limits)
  await using _ = fixture
  expect((await quota.status(scope)).limit).toBe(limit)
  const results = await Promise.allSettled(Array.from({ length: 8 }, start))
  const days = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value.quota_day] : []))
  expect(days).toEqual(Array.from({ length: limit ?? 8 }, () => '2026-01-31'))
  expect((await quota.status(scope)).used).toBe(limit ?? 8)
})

test('the status says whose limit it is, and in which organisations of the user there is none', async () => {
  const { fixture, quota, scope, users } = await open({ server: 1, isExempt: true })
  await using _ = fixture
  await users.addMember(scope.org, 'u')
  expect(await quota.status(scope)).toMatchObject({ source: 'exempt_organizations', unlimitedOrgs: [] })
  const elsewhere = { owner: 'u', org: undefined }
  expect(await quota.status(elsewhere)).toMatchObject({
    ...{ limit: 1, source: 'server', unlimitedOrgs: [scope.org] },
  })
  await users.updateOrg(scope.org, { daily_conversation_limit: 4 })
  expect(await quota.status(scope)).toMatchObject({ limit: 4, source: 'organization', unlimitedOrgs: [] })
  expect(await quota.status(elsewhere)).toMatchObject({ unlimitedOrgs: [] })
  await users.updateUser('u', { daily_conversation_limit: 2 })
  expect(await quota.status(elsewhere)).toMatchObject({ limit: 2, source: 'user', unlimitedOrgs: [] })
})

test('a refusal has the limit, the slots in use, and when new ones start', async () => {
  const { fixture, start } = await open({ server: 2 })
  await using _ = fixture
  await start()
  await start()
  await expect(start()).rejects.toMatchObject({
    code: 'too_many',
    members: {
      code: 'daily_conversation_limit_reached',
      limit: 2,
      used: 2,
      reset_at: '2026-02-01T00:00:00.000000Z',
    },
  })
})

test('the count starts again at midnight UTC, and a slot returns to the day of its start', async () => {
  const { fixture, clock, start, fail } = await open({ server: 1 })
  await using _ = fixture
  clock.now = midnight - 1
  const first = await start()
  await expect(start()).rejects.toMatchObject({ code: 'too_many', retryAfterSeconds: 1 })
  clock.now = midnight
  expect((await start())?.quota_day).toBe('2026-02-01')
  await fail(first)
  await expect(start()).rejects.toMatchObject({ code: 'too_many' })
  clock.now = midnight - 1
  expect((await start())?.quota_day).toBe(first?.quota_day)
})

test('any sequence of starts and failures stays within the limit', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.constantFrom('start', 'fail'), { maxLength: 30 }),
      async (limit, steps) => {
        const { fixture, quota, scope, start, fail } = await open({ server: limit })
        await using _ = fixture
        const started: Awaited<ReturnType<typeof start>>[] = []
        for (const step of steps) {
          if (step === 'start') {
            const row = await start().catch(() => undefined)
            expect(row !== undefined).toBe(started.length < limit)
            if (row !== undefined) started.push(row)
          } else if (started.length > 0) await fail(started.shift())
          expect((await quota.status(scope)).used).toBe(started.length)
        }
      },
    ),
    { numRuns: 25 },
  )
})
