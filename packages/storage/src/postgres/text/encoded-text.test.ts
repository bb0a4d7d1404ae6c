import fc from 'fast-check'
import { expect, test } from 'vitest'
import { decodeText, encodeText } from './encoded-text.ts'

test('every well-formed text survives, without a NUL on the way', () => {
  const char = fc.constantFrom('a', '0', '1', '\0', '\u{10fffe}', 'ü', '\u{1f600}')
  fc.assert(
    fc.property(fc.array(char), (chars) => {
      const text = chars.join('')
      expect(encodeText(text)).not.toContain('\0')
      expect(decodeText(encodeText(text))).toBe(text)
    }),
  )
  expect(decodeText(encodeText('a\ud800'))).toBe('a\ufffd')
})
