import fc from 'fast-check'
import { expect, test } from 'vitest'
import { displayWidth, sanitizeLine, sanitizeLines, truncate, truncateToWidth } from './sanitize.ts'

test.each([
  ['\u001b[31mred\u001b[0m', '␛[31mred␛[0m'],
  ['a\u0007b\u007f\u0000', 'a␇b␡␀'],
  ['\u009b2J', '\\x9b2J'],
  ['abc\u202egnp.exe\u2066', 'abc\\u202egnp.exe\\u2066'],
  ['one\r\n\ttwo   three', 'one two three'],
  ['straße ΟΔΟΣ 🐢 שלום', 'straße ΟΔΟΣ 🐢 שלום'],
])('%j is shown as %j', (text, shown) => {
  expect(sanitizeLine(text)).toBe(shown)
})

test('no text keeps a control character or a line end', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(sanitizeLine(text)).not.toMatch(/\p{Cc}|[\u2028\u2029\u202a-\u202e\u2066-\u2069]/u)
    }),
  )
})

test('a cut text has at most that many characters and none of them in half', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary', maxLength: 30 }),
      fc.integer({ min: 1, max: 20 }),
      (text, length) => {
        const short = truncate(text, length)
        expect([...short].length).toBeLessThanOrEqual(length)
        if ([...text].length <= length) expect(short).toBe(text)
        else expect(short).toBe(`${[...text].slice(0, length - 1).join('')}…`)
      },
    ),
  )
})

test.each([
  ['plain', 5],
  ['ἀρχή', 4],
  ['e\u0301', 1],
  ['你好', 4],
  ['🐢!', 3],
])('%j takes %i columns', (text, columns) => {
  expect(displayWidth(text)).toBe(columns)
})

test('a text that is fitted takes no more columns than there are and is whole when it has room', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), fc.integer({ min: 1, max: 30 }), (text, columns) => {
      const shown = sanitizeLine(text)
      const fitted = truncateToWidth(shown, columns)
      expect(displayWidth(fitted)).toBeLessThanOrEqual(columns)
      if (displayWidth(shown) <= columns) expect(fitted).toBe(shown)
      else expect(shown.startsWith(fitted.slice(0, -1))).toBe(true)
    }),
  )
})

test('the lines of a text keep their blanks and hold no control character', () => {
  expect(sanitizeLines('a\r\n  b\tc\u001b[1m \n')).toEqual(['a', '  b    c␛[1m', ''])
})
