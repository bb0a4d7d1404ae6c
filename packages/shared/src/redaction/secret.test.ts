import { inspect } from 'node:util'
import { expect, test } from 'vitest'
import { Secret } from './secret.ts'

test('a secret prints as stars in every way and opens by name', () => {
  const secret = new Secret('hush')
  for (const print of [String(secret), `${secret}`, JSON.stringify({ secret }), inspect({ secret })]) {
    expect(print).not.toContain('hush')
  }
  expect(JSON.stringify({ ...secret })).toBe('{}')
  expect(secret.reveal()).toBe('hush')
})
