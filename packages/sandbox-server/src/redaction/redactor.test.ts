import { Secret } from '@slipway/shared/redaction'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Redactor, truncateStart } from './redactor.ts'

test('a secret is hidden as it is, in base64 and percent-encoded, the longest first', () => {
  const hidden = new Redactor()
  hidden.add(new Secret('p@ss word'))
  hidden.add('p@ss')
  const text = `p@ss word ${Buffer.from('p@ss word').toString('base64')} ${encodeURIComponent('p@ss word')} p@ss`
  expect(hidden.redact(text)).toBe('********** ********** ********** **********')
})

test('of a configuration what is named as secret is hidden, and short texts are not', () => {
  const hidden = new Redactor()
  hidden.addSecretsOf({ model: 'a/b', api_key: 'sk-1234567', extra_headers: { 'x-any': 'header-value' } })
  hidden.add('abc')
  hidden.add(undefined)
  expect(hidden.redact('a/b sk-1234567 header-value abc')).toBe('a/b ********** ********** abc')
})

test('of a long text the end is told, and never half a word of it', () => {
  expect(truncateStart('one two\nthree four', 100)).toBe('one two\nthree four')
  expect(truncateStart('one two\nthree four', 15)).toBe('three four')
  expect(truncateStart('one two\nthree four', 10)).toBe('three four')
  expect(truncateStart('one two\nthree four', 8)).toBe('four')
  expect(truncateStart('x'.repeat(20), 10)).toBe('')
  const words = fc.array(fc.tuple(fc.string({ unit: 'grapheme' }), fc.constantFrom(' ', '\n')))
  fc.assert(
    fc.property(words, fc.nat(60), (parts, maxChars) => {
      const text = parts.flat().join('')
      const end = truncateStart(text, maxChars)
      expect(text.endsWith(end)).toBe(true)
      expect([...end].length).toBeLessThanOrEqual(maxChars)
      const cut = text.slice(0, text.length - end.length)
      if (end !== '' && cut !== '') expect(cut).toMatch(/\s$/)
    }),
  )
})

test('a secret is hidden also where it is a part of what is base64, and in hex', () => {
  const hidden = new Redactor()
  hidden.add('a-token-of-somebody')
  for (const user of ['', 'x', 'xy', 'user:']) {
    const shown = hidden.redact(Buffer.from(`${user}a-token-of-somebody`).toString('base64'))
    expect(Buffer.from(shown.replaceAll('*', ''), 'base64').toString()).not.toContain('token')
  }
  expect(hidden.redact(Buffer.from('a-token-of-somebody').toString('hex'))).toBe('**********')
})
