import fc from 'fast-check'
import { expect, test } from 'vitest'
import { encodedForms } from './secret-forms.ts'

test('a secret is found in base64 of any text around it, and in hex', () => {
  const around = fc.string({ maxLength: 10, unit: 'grapheme' })
  const secret = fc.string({ minLength: 12, maxLength: 60, unit: 'grapheme' })
  fc.assert(
    fc.property(secret, around, around, (text, before, after) => {
      const whole = Buffer.from(before + text + after)
      const forms = encodedForms(text)
      for (const encoding of ['base64', 'base64url', 'hex'] as const) {
        const written = whole.toString(encoding)
        expect(forms.some((form) => written.includes(form))).toBe(true)
      }
    }),
  )
})

test('a form is long enough to mean the secret, and short texts have none', () => {
  expect(encodedForms('abc')).toEqual([])
  fc.assert(
    fc.property(fc.string({ minLength: 4, unit: 'binary' }), (text) => {
      for (const form of encodedForms(text)) expect(form.length).toBeGreaterThanOrEqual(4)
    }),
  )
})
