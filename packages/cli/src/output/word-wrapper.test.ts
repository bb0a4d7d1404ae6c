import fc from 'fast-check'
import { expect, test } from 'vitest'
import { displayWidth } from './sanitize.ts'
import { WordWrapper } from './word-wrapper.ts'

function wrap(pieces: readonly string[], columns: number, indent = ''): string {
  const made = new WordWrapper({ indent, columns })
  return pieces.map((piece) => made.write(piece)).join('') + made.finish()
}

test.each([
  [['one two three'], 9, 'one two\nthree\n'],
  [['on', 'e t', 'wo'], 20, 'one two\n'],
  [['a\n\n  b\tc'], 20, 'a\n\n  b    c\n'],
  [['abcdefgh ij'], 3, 'abc\ndef\ngh\nij\n'],
  [['a\u001b[2Jb'], 20, 'a␛[2Jb\n'],
  [['你好 世界'], 5, '你好\n世界\n'],
  [[''], 20, ''],
])('%j in %i columns is %j', (pieces, columns, printed) => {
  expect(wrap(pieces, columns)).toBe(printed)
})

test('each line is indented, and the indent counts', () => {
  expect(wrap(['one two three'], 9, '  ')).toBe('  one two\n  three\n')
})

test('however a text is cut into pieces it is printed the same, complete and in lines that fit', () => {
  const text = fc.string({ unit: fc.constantFrom('a', 'b', ' ', '\n', 'é', '好', '\u0007') })
  fc.assert(
    fc.property(fc.array(text), fc.integer({ min: 2, max: 20 }), (pieces, columns) => {
      const printed = wrap(pieces, columns)
      expect(printed).toBe(wrap([pieces.join('')], columns))
      for (const line of printed.split('\n')) expect(displayWidth(line)).toBeLessThanOrEqual(columns)
      const letters = (shown: string) => shown.replaceAll(/[ \n]/g, '').replaceAll('\u0007', '␇')
      expect(letters(printed)).toBe(letters(pieces.join('')))
    }),
  )
})
