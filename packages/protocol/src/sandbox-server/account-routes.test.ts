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

// A start hands the secrets to the agent server as members of a JSON object.
test('no new secret has a name that no object of a request may have; an old one can be removed', () => {
  const { createSecret, renameSecret, deleteSecret } = accountRoutes
  for (const { body } of [createSecret, renameSecret]) {
    expect(body.safeParse({ name: '__proto__', value: 'x' }).error?.issues).toMatchObject([
      { path: ['name'] },
    ])
    expect(body.safeParse({ name: '__proto', value: 'x' }).success).toBe(true)
  }
  expect(deleteSecret.params.safeParse({ name: '__proto__' }).success).toBe(true)
})
