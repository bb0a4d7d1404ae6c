import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { SandboxSecrets } from './sandbox-secrets.ts'
import { redactDetail } from './status-detail.ts'

function sandboxSecrets(env: Record<string, string>, key = 'sk-slipway-canary-key'): SandboxSecrets {
  const order = {
    id: 'a',
    image: null,
    command: [],
    env,
    workingDir: '',
    resources: {},
    network: 'shared' as const,
  }
  return { key, initKey: 'sk-slipway-canary-init', order, specHash: '' }
}

test('colours and control characters are removed, lines stay', () => {
  expect(redactDetail('\u001b[1;31mred\u001b[0m\u0000\u0007\r\nnext\tcolumn\u009b', undefined)).toBe(
    'red\nnext\tcolumn',
  )
})

test('what is too long is shown from its end', () => {
  const shown = redactDetail(`${'x'.repeat(10_000)}the end`, undefined)
  expect(shown).toHaveLength(4_002)
  expect(shown.endsWith('the end')).toBe(true)
})

test('the rest of a secret that was cut in two is not shown, and harmless values are', () => {
  const at = sandboxSecrets({ APP_SECRET: 'canary-0123456789', MODE: 'production' })
  expect(redactDetail('0123456789 in production', at)).toBe('**** in production')
  expect(redactDetail('way-canary-key\nway-canary-init', at)).toBe('****\n****')
})

test('however a secret is written and wherever it stands, it is not shown', () => {
  const secret = fc
    .string({ minLength: 6, maxLength: 40, unit: 'grapheme' })
    .filter((text) => text.trim().length > 5)
  const form = fc.constantFrom(
    (text: string) => text,
    (text: string) => JSON.stringify(text),
    (text: string) => encodeURIComponent(text),
    (text: string) => Buffer.from(text).toString('base64'),
  )
  fc.assert(
    fc.property(secret, secret, form, fc.string(), fc.string(), (value, key, write, before, after) => {
      const at = sandboxSecrets({ SOME_API_KEY: value }, key)
      const shown = redactDetail(`${before} ${write(value)} ${write(key)} ${after}`, at)
      fc.pre(!`${before} ${after} ****`.includes(value) && !`${before} ${after} ****`.includes(key))
      expect(shown).not.toContain(write(value))
      expect(shown).not.toContain(write(key))
    }),
    { numRuns: 500 },
  )
})
