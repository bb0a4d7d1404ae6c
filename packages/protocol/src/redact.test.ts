import fc from 'fast-check'
import { expect, test } from 'vitest'
import { redact } from './redact.ts'
import { Secret } from './secret.ts'

test.each([
  'api_key',
  'API-Key',
  'apiKey',
  'aws_access_key_id',
  'aws_secret_access_key',
  'Password',
  'github_token',
  'client_secret',
  'Authorization',
  'encrypted_content',
  'session_api_key',
])('the value of %s is hidden at any depth', (name) => {
  expect(redact({ a: [{ [name]: 'hush', b: 1 }] })).toEqual({ a: [{ [name]: null, b: 1 }] })
})

test.each([
  'key',
  'max_tokens',
  'prompt_token_ids',
  'secret_names',
  'tool_call_id',
  'session_id',
  'keyboard',
])('the value of %s is shown', (name) => {
  expect(redact({ [name]: 'x' })).toEqual({ [name]: 'x' })
})

test('maps of secrets keep their names only', () => {
  expect(redact({ secrets: { A: { value: 'v' }, B: 'w' }, env: { PATH: '/bin' }, headers: ['x'] })).toEqual({
    secrets: { A: null, B: null },
    env: { PATH: null },
    headers: [],
  })
})

test('a value without secrets is copied as it is', () => {
  const plain = fc
    .jsonValue()
    .filter((value) => !/key|pass|secret|token|auth|cookie|cred|env|headers/i.test(JSON.stringify(value)))
  fc.assert(fc.property(plain, (value) => expect(redact(value)).toEqual(value)))
})

test('deep nesting does not overflow', () => {
  let value: unknown = { password: 'hush' }
  for (let depth = 0; depth < 100_000; depth++) value = [value]
  expect(JSON.stringify(redact(value))).not.toContain('hush')
})

test('a secret prints as stars in every way and opens by name', () => {
  const secret = new Secret('hush')
  for (const print of [String(secret), JSON.stringify({ secret }), `${secret}`])
    expect(print).not.toContain('hush')
  expect(JSON.stringify(redact({ ...secret }))).toBe('{}')
  expect(secret.open()).toBe('hush')
})
