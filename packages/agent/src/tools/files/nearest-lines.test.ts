import { expect, test } from 'vitest'
import { nearestLines } from './nearest-lines.ts'

const file = [
  'import { open } from "node:fs"',
  '',
  'export function area(width, height) {',
  '\treturn width * height',
  '}',
  '',
  'say(“yes”)',
  'total\u200b = sum(items)',
  'cafe\u0301 = 1',
  'if (ready) {  ',
  '  start()',
  '}',
].join('\n')

test.each([
  ['white space', 'export function area( width, height ) {', 3, /Line 3 differs: white space/],
  [
    'indentation',
    '  return width * height',
    4,
    /indentation \(1 tab in the file, 2 blanks in the old text\)/,
  ],
  ['quotes', 'say("yes")', 7, /quotes.*“yes.*U\+201C/],
  ['an invisible character', 'total = sum(items)', 8, /an invisible character \(the file has U\+200B\)/],
  ['composition', 'caf\u00e9 = 1', 9, /another composition/],
  ['case', 'if (Ready) {  ', 10, /upper and lower case/],
  ['a word', '\treturn width * hight', 4, /the file has "eight", the old text "ight"/],
])('the nearest line and what differs: %s', (_, old, line, why) => {
  const message = nearestLines(file, old)
  expect(message).toContain(
    `The nearest line is ${line}:\n${String(line).padStart(6)}\t${file.split('\n')[line - 1]}`,
  )
  expect(message).toMatch(why)
})

test('of several lines, those that differ are named, and the file may end before them', () => {
  const message = nearestLines(file, 'if (ready) {  \n  stop()\n}\nmore()\n')
  expect(message).toContain('The nearest lines are 10 to 12:')
  expect(message).toMatch(
    /Line 11 differs: text \(the file has "art\(\)", the old text "op\(\)"\)\.\nThe file has no line 13\.$/,
  )
})

test.each([
  '     3\texport function area(width, height) {\n     4\t\treturn width * depth',
  '3: export function area(width, height) {',
])('copied line numbers are noticed: %j', (old) => {
  const message = nearestLines(file, old)
  expect(message).toContain('has the line numbers of a view')
  expect(message).toMatch(/nearest lines? (?:is|are) 3/)
})

test('nothing is said where no line is near, and long lines and many lines are cut', () => {
  expect(nearestLines(file, 'zzzzzz qqqqq')).toBe('')
  expect(nearestLines('', 'x = 1')).toBe('')
  const lines = Array.from({ length: 300 }, (_, at) => `${at} ${'x😀'.repeat(500)}`)
  const message = nearestLines(lines.join('\n'), lines.map((line) => `${line}!`).join('\n'))
  expect(message.length).toBeLessThan(8000)
  expect(message.isWellFormed()).toBe(true)
})

test('a large file is searched', () => {
  const lines = Array.from({ length: 20_000 }, (_, at) => `line ${at} of many }`)
  expect(nearestLines(lines.join('\n'), 'line 11000 off many )')).toContain('The nearest line is 11001')
})
