import { expect, test } from 'vitest'
import { accountRoutes } from './account-routes.ts'

test('a new user has a name or an email, and members that do not exist are refused', () => {
  const { body } = accountRoutes.createUser
  expect(body.safeParse({ name: 'Ann' }).success).toBe(true)
  expect(body.safeParse({ email: 'ann@example.org' }).success).toBe(true)
  expect(body.safeParse({}).error?.issues).toMatchObject([
    { path: ['name'], message: 'A user needs a name or an email' },
  ])
  expect(body.safeParse({ name: null }).success).toBe(false)
  expect(body.safeParse({ id: 'ann', name: 'Ann' }).error?.issues).toMatchObject([
    { code: 'unrecognized_keys', keys: ['id'] },
  ])
})
