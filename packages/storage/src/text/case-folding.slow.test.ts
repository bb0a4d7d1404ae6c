import { expect, test } from 'vitest'
import { foldCase } from './case-folding.ts'

const surrogates = (code: number) => code >= 0xd800 && code <= 0xdfff

test('characters fold alike exactly when a case-insensitive regular expression matches them', () => {
  const byFold = new Map<string, string[]>()
  for (let code = 0; code <= 0x10ffff; code++) {
    if (surrogates(code)) continue
    const char = String.fromCodePoint(code)
    const folded = foldCase(char)
    const members = byFold.get(folded) ?? []
    members.push(char)
    byFold.set(folded, members)
  }
  const groups = [...byFold.values()]
  for (const group of groups.filter(({ length }) => length > 1)) {
    for (const char of group) for (const other of group) expect(pattern(char).test(other)).toBe(true)
  }
  const text = groups.map(([first]) => first).join('')
  for (const [first] of groups) {
    const char = first ?? ''
    if (!isCased(char)) continue
    expect([...text.matchAll(new RegExp(pattern(char).source, 'giu'))].map(([found]) => found)).toEqual([
      char,
    ])
  }
})

test('folding is idempotent and works code point by code point', () => {
  const pairs = [
    ['ΟΔΥΣΣΕΥΣ', 'οδυσσευς'],
    ['ſ\u212aÅ', 'sk\u212b'],
    ['ẞ', 'ß'],
    ['\u0390', '\u1fd3'],
    ['Ǆ', 'ǅ'],
    ['𐐀', '𐐨'],
  ]
  for (const [a = '', b = ''] of pairs) expect(foldCase(a)).toBe(foldCase(b))
  const unequal = [
    ['ß', 'ss'],
    ['İ', 'i'],
    ['ı', 'i'],
    ['é', 'e\u0301'],
    ['ﬃ', 'ffi'],
  ]
  for (const [a = '', b = ''] of unequal) expect(foldCase(a)).not.toBe(foldCase(b))
  expect(foldCase('É')).toBe(foldCase('é'))
  expect(foldCase('\ud800X\udc00')).toBe('\ud800x\udc00')
  expect([...foldCase('İıŒ𐐀!')]).toHaveLength(5)
  expect(foldCase(foldCase('ΣÀẞſ'))).toBe(foldCase('ΣÀẞſ'))
})

function pattern(char: string): RegExp {
  return new RegExp(`\\u{${char.codePointAt(0)?.toString(16)}}`, 'iu')
}

/** A superset: every character with another form in any mapping. */
function isCased(char: string): boolean {
  return (
    char.toLowerCase() !== char || char.toUpperCase() !== char || /\p{Changes_When_Casefolded}/u.test(char)
  )
}
