import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Quota } from './quota.ts'

const noon = Date.UTC(2026, 0, 31, 12) * 1000
const midnight = Date.UTC(2026, 1, 1) * 1000

async function open(limits: { server?: number; org?: number | null; user?: number | null }) {
  const trial = await openTestControlPlane()
  const { users } = trial.controlPlane
  const org = randomUUID()
  await users.addOrg({ id: org, name: 'O', daily_conversation_limit: limits.org ?? null, created_at: noon })
  const row = { name: null, email: null, org, is_admin: false, created_at: noon }
  await users.addUser({ id: 'u', ...row, daily_conversation_limit: limits.user ?? null })
  const clock = { now: noon }
  const quota = new Quota({
    users,
    rows: trial.controlPlane.quota,
    limit: limits.server ?? null,
    now: () => clock.now,
  })
  return { trial, quota, clock, scope: { owner: 'u', org } }
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
] as const)('of %o the limit is %s', async ([limits, limit]) => {
  const { trial, quota, scope } = await open(limits)
  await using _ = trial
  expect((await quota.status(scope)).limit).toBe(limit)
  const taken = await Promise.allSettled(Array.from({ length: 8 }, () => quota.reserve(scope)))
  const days = taken.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  expect(days).toEqual(Array.from({ length: limit ?? 8 }, () => (limit === null ? null : '2026-01-31')))
  expect((await quota.status(scope)).used).toBe(limit ?? 0)
})

test('a refusal says the limit, what is used, and when there are new ones', async () => {
  const { trial, quota, scope } = await open({ server: 2 })
  await using _ = trial
  await quota.reserve(scope)
  await quota.reserve(scope)
  await expect(quota.reserve(scope)).rejects.toMatchObject({
    code: 'too_many',
    members: {
      code: 'daily_conversation_limit_reached',
      limit: 2,
      used: 2,
      reset_at: '2026-02-01T00:00:00.000000Z',
    },
  })
})

test('the count begins anew at midnight, UTC, and a slot goes back to the day that it was taken from', async () => {
  const { trial, quota, clock, scope } = await open({ server: 1 })
  await using _ = trial
  clock.now = midnight - 1
  const day = await quota.reserve(scope)
  await expect(quota.reserve(scope)).rejects.toMatchObject({ code: 'too_many' })
  clock.now = midnight
  expect(await quota.reserve(scope)).toBe('2026-02-01')
  await quota.release('u', String(day))
  await expect(quota.reserve(scope)).rejects.toMatchObject({ code: 'too_many' })
  clock.now = midnight - 1
  expect(await quota.reserve(scope)).toBe(day)
})

test('whatever is taken and given back at once, never more than the limit are out', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.constantFrom('take', 'back'), { maxLength: 30 }),
      async (limit, steps) => {
        const { trial, quota, scope } = await open({ server: limit })
        await using _ = trial
        let out = 0
        for (const step of steps) {
          if (step === 'take') {
            const isTaken = await quota.reserve(scope).then(
              () => true,
              () => false,
            )
            expect(isTaken).toBe(out < limit)
            if (isTaken) out++
          } else if (out > 0) {
            await quota.release('u', '2026-01-31')
            out--
          }
          expect((await quota.status(scope)).used).toBe(out)
        }
      },
    ),
    { numRuns: 25 },
  )
})
