import { execFileSync } from 'node:child_process'
import { expect, test } from 'vitest'
import {
  errorText,
  errorTextWithCause,
  firstChars,
  formatBytes,
  lastChars,
  shellQuote,
  shellWord,
} from './index.ts'

test.each([
  [new TypeError('it broke'), 'it broke'],
  ['a text', 'a text'],
  [undefined, 'undefined'],
])('the text of %s', (error, text) => {
  expect(errorText(error)).toBe(text)
})

test('a cause stands behind the message', () => {
  expect(errorTextWithCause(new Error('fetch failed', { cause: new Error('reset') }))).toBe(
    'fetch failed (reset)',
  )
  expect(errorTextWithCause(new Error('fetch failed', { cause: 'reset' }))).toBe('fetch failed')
  expect(errorTextWithCause('a text')).toBe('a text')
})

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [20 * 1024 ** 2, '20 MiB'],
  [3 * 1024 ** 5, '3072 TiB'],
])('%i bytes are %s', (bytes, text) => {
  expect(formatBytes(bytes)).toBe(text)
})

test('a shell reads a quoted text as one word, NUL left out', () => {
  const texts = ["it's", '$(exit 1) `x` "y"', '', 'a\nb', 'c\0d']
  const printed = execFileSync('sh', ['-c', `printf '%s|' ${texts.map(shellQuote).join(' ')}`]).toString()
  expect(printed).toBe(`${texts.join('|')}|`.replace('\0', ''))
})

test('a plain word has no quotes', () => {
  expect(['/tmp/a-b.txt', 'a b', ''].map(shellWord)).toEqual(['/tmp/a-b.txt', "'a b'", "''"])
})

test.each([
  ['abc', 2, 'ab', 'bc'],
  ['abc', 3, 'abc', 'abc'],
  ['abc', 9, 'abc', 'abc'],
  ['abc', 0, '', ''],
  ['😀x😀', 1, '', ''],
  ['😀x😀', 2, '😀', '😀'],
  ['😀x😀', 4, '😀x', 'x😀'],
  // A half that was one before stays: it is not this cut's.
  ['a\ud83d', 2, 'a\ud83d', 'a\ud83d'],
  ['\ude00b', 1, '\ude00', 'b'],
])('%j cut to %i begins as %j and ends as %j', (text, max, first, last) => {
  expect(firstChars(text, max)).toBe(first)
  expect(lastChars(text, max)).toBe(last)
})
