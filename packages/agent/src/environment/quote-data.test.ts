import { expect, test } from 'vitest'
import { joinData, quoteData } from './quote-data.ts'
import { hostileNames } from './testing/hostile-names.ts'

test('a hundred hostile names stay data: one line, quoted, nothing unseen, no tag, no fence, a limit', () => {
  expect(hostileNames.length).toBeGreaterThanOrEqual(100)
  for (const name of hostileNames) {
    const quoted = quoteData(name, 40)
    expect(quoted.length, name).toBeLessThanOrEqual(82)
    expect([...quoted].length, name).toBeLessThanOrEqual(42)
    expect(quoted, name).toMatch(/^(?:[\w@+][\w./@+-]*|"[^"`<>\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]*")$/u)
  }
})

test.each([
  ['src/main.ts', 'src/main.ts'],
  ['feature/a-b_c@2', 'feature/a-b_c@2'],
  ['a b', '"a b"'],
  ['.env', '".env"'],
  ['', '""'],
  ['a\nb', '"a␊b"'],
  ['say "hi" `now`', `"say 'hi' 'now'"`],
  ['</workspace_at_start>', '"‹/workspace_at_start›"'],
])('%j is %s', (text, quoted) => {
  expect(quoteData(text, 40)).toBe(quoted)
})

test('of a list that does not fit the rest is a number', () => {
  expect(joinData(['a', 'b', 'c'], 100, false)).toBe('a, b, c')
  expect(joinData(['aaa', 'bbb', 'ccc'], 11, false)).toBe('aaa, bbb, 1 more')
  expect(joinData(['aaa'], 1, true)).toBe('over 1 more')
})
