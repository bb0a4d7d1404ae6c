import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { openTestControlPlane } from '../testing/fixtures.ts'
import { Quota } from './quota.ts'

const noon = Date.UTC(2026, 0, 31, 12) * 1000
const midnight = Date.UTC(2026, 1, 1) * 1000

async function open(limits: { server?: number; org?: number | null; user?: number | null }) {
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
    now: () => clock.now,
  })
  return { fixture, quota, clock, scope: { owner: 'u', org } }
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
  const { fixture, quota, scope } = await open(limits)
  await using _ = fixture
  expect((await quota.status(scope)).limit).toBe(limit)
  const results = await Promise.allSettled(Array.from({ length: 8 }, () => quota.reserve(scope)))
  const days = results.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  expect(days).toEqual(Array.from({ length: limit ?? 8 }, () => (limit === null ? null : '2026-01-31')))
  expect((await quota.status(scope)).used).toBe(limit ?? 0)
})

test('a refusal has the limit, the slots in use, and when new ones start', async () => {
  const { fixture, quota, scope } = await open({ server: 2 })
  await using _ = fixture
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

test('the count starts again at midnight UTC, and a slot returns to the day of its reservation', async () => {
  const { fixture, quota, clock, scope } = await open({ server: 1 })
  await using _ = fixture
  clock.now = midnight - 1
  const day = await quota.reserve(scope)
  await expect(quota.reserve(scope)).rejects.toMatchObject({ code: 'too_many', retryAfterSeconds: 1 })
  clock.now = midnight
  expect(await quota.reserve(scope)).toBe('2026-02-01')
  await quota.release('u', String(day))
  await expect(quota.reserve(scope)).rejects.toMatchObject({ code: 'too_many' })
  clock.now = midnight - 1
  expect(await quota.reserve(scope)).toBe(day)
})

test('any sequence of reservations and releases stays within the limit', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 5 }),
      fc.array(fc.constantFrom('reserve', 'release'), { maxLength: 30 }),
      async (limit, steps) => {
        const { fixture, quota, scope } = await open({ server: limit })
        await using _ = fixture
        let reserved = 0
        for (const step of steps) {
          if (step === 'reserve') {
            const isReserved = await quota.reserve(scope).then(
              () => true,
              () => false,
            )
            expect(isReserved).toBe(reserved < limit)
            if (isReserved) reserved++
          } else if (reserved > 0) {
            await quota.release('u', '2026-01-31')
            reserved--
          }
          expect((await quota.status(scope)).used).toBe(reserved)
        }
      },
    ),
    { numRuns: 25 },
  )
})
