import { expect, test } from 'vitest'
import { findPhrases } from './check-words.ts'

test.each([
  ['The run goes on.', 'goes on'],
  ['A server of its own.', 'of its own'],
  ['a file that nobody reads', 'nobody'],
])('%s', (line, phrase) => {
  expect(findPhrases('a.ts', `first\n${line}`)).toMatchObject([{ file: 'a.ts', line: 2, phrase }])
})

test('names and ordinary uses are left alone', () => {
  expect(findPhrases('a.ts', "const nobody = 65_534\nof its own tools\nuser 'nobody'")).toEqual([])
})
