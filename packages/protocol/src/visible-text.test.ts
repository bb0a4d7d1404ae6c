import fc from 'fast-check'
import { expect, test } from 'vitest'
import { visibleLines, visibleText } from './visible-text.ts'

test.each([
  ['\u001b[31mred\u001b[0m', '␛[31mred␛[0m'],
  ['a\u0007b\u007f\u0000\u009b', 'a␇b␡␀\\u{9b}'],
  ['rm \u202egnp.exe\u2066', 'rm \\u{202e}gnp.exe\\u{2066}'],
  ['a\u200bb\u00a0c\ufeff\u{e0041}', 'a\\u{200b}b\\u{a0}c\\u{feff}\\u{e0041}'],
  ['braille\u2800 blank', 'braille\\u{2800} blank'],
  ['half \ud83d', 'half \\u{d83d}'],
  ['echo  two\tblanks', 'echo  two␉blanks'],
  ['straße ΟΔΟΣ 🐢 שלום', 'straße ΟΔΟΣ 🐢 שלום'],
])('%j is shown as %j', (text, shown) => {
  expect(visibleText(text)).toBe(shown)
})

test('lines are kept, and a return inside of one is seen', () => {
  expect(visibleLines('one\r\n  two\r three\n')).toEqual(['one␍', '  two␍ three', ''])
})

test('no text keeps what is not seen, and nothing else is changed', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      expect(visibleText(text)).not.toMatch(
        /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/u,
      )
    }),
  )
  fc.assert(fc.property(fc.string({ unit: 'grapheme-ascii' }), (text) => visibleText(text) === text))
})
