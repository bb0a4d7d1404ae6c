import fc from 'fast-check'
import { expect, test } from 'vitest'
import { truncateStart } from './truncate-start.ts'

test('the end of a long text starts with a whole word', () => {
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
