import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { Screen } from './screen.ts'

function renderScreen(...parts: string[]): string {
  const screen = new Screen()
  return parts.map((part) => screen.write(part)).join('') + screen.flush()
}

test.each([
  ['plain\n', 'plain\n'],
  ['a\r\nb\r\n', 'a\nb\n'],
  ['10%\r20%\r100%\n', '100%\n'],
  ['long line\rab\n', 'abng line\n'],
  ['long line\r\x1b[Kab\n', 'ab\n'],
  ['long line\x1b[2K\rab\n', 'ab\n'],
  ['abc\b\bX\n', 'aXc\n'],
  ['\b\b\ba\n', 'a\n'],
  ['abc\x1b[2DX\x1b[1GY\n', 'YXc\n'],
  ['a\x1b[3Cb\n', 'a   b\n'],
  ['\x1b[1;31mred\x1b[0m \x1b[38;5;12mblue\x1b[m\n', 'red blue\n'],
  ['\x1b]0;title\x07text\n', 'text\n'],
  ['\x1b]8;;https://example.test\x1b\\link\x1b]8;;\x1b\\\n', 'link\n'],
  ['\x1bPq#0;1;2\x1b\\image\n', 'image\n'],
  ['\x1b_G\x1b\\a\x1b^x\x1b\\b\x1bXy\x1b\\c\n', 'abc\n'],
  ['\x1b(B\x1b)0a\x1b=\x1b>\x1b7\x1b8b\n', 'ab\n'],
  ['\x1bNxa\x1bOyb\n', 'ab\n'],
  ['\x1b[?2004h\x1b[?25la\n', 'a\n'],
  ['\x9b31mred\x9b0m\x9d0;t\x9ca\n', 'reda\n'],
  ['a\0b\x07c\x0ed\x0fe\x7ff\n', 'abcdef\n'],
  ['tab\there\n', 'tab\there\n'],
  ['\x1b]unended\nnext\n', '\nnext\n'],
  ['\x1b[31\x18a\n', 'a\n'],
  ['\x1b\x1b[31ma\n', 'a\n'],
  ['\x1b[3\x1b[31ma\n', 'a\n'],
  ['\x1b[\nA\n', '\n\n'],
  ['ünïcödé 漢字 🙂\n', 'ünïcödé 漢字 🙂\n'],
  ['no end', 'no end'],
])('%j is read as %j', (written, read) => {
  expect(renderScreen(written)).toBe(read)
})

test('an endless line is emitted in parts, without loss', () => {
  const line = '🙂x'.repeat(100_000)
  const screen = new Screen()
  const first = screen.write(line)
  expect(first.length).toBeGreaterThan(line.length - 20_000)
  expect(first + screen.flush()).toBe(line)
})

test('a title that never ends hides little', () => {
  expect(renderScreen('\x1b]0;', 'x'.repeat(100_000)).length).toBeGreaterThan(30_000)
})

const piece = fc.oneof(
  fc.constantFrom(
    '\r',
    '\n',
    '\b',
    '\t',
    '\x1b',
    '\x1b[',
    '\x1b]0;',
    '\x07',
    '\x1b\\',
    'K',
    '5G',
    '\x9b',
    '🙂',
    ';',
    'm',
    'O',
    '\0',
  ),
  fc.string({ unit: 'binary', maxLength: 5 }).map((text) => text.toWellFormed()),
)

test('it does not matter how the output is split', () => {
  void fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      expect(renderScreen(...pieces)).toBe(renderScreen(pieces.join('')))
    }),
    { numRuns: 1000 },
  )
})

test('what is read has no control characters besides tabs and newlines, and is well formed', () => {
  void fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const read = renderScreen(...pieces)
      expect(read.replace(/[\t\n]/g, '')).not.toMatch(/\p{Cc}/u)
      expect(read.isWellFormed()).toBe(true)
    }),
    { numRuns: 1000 },
  )
})

test('text without control characters is read as it is', () => {
  void fc.assert(
    fc.property(fc.array(fc.string({ unit: 'grapheme' })), (lines) => {
      const text = lines.map((line) => line.replace(/\p{Cc}/gu, '')).join('\n')
      expect(renderScreen(text)).toBe(text)
    }),
  )
})
