import { expect, test } from 'vitest'
import { findLarge, findSizeViolations } from './check-sizes.ts'

const lines = (count: number) => 'f()\n'.repeat(count)

test('a folder of more than twenty source files is large', () => {
  const folder = (count: number) =>
    Array.from({ length: count }, (_, n) => ({ file: `http/src/a/${n}.ts`, text: '' }))
  expect(findLarge(folder(20))).toEqual([])
  expect(findLarge(folder(21))).toEqual([{ place: 'http/src/a', size: 21, kind: 'folder' }])
})

test('a file of more than 500 lines is large', () => {
  expect(findLarge([{ file: 'http/src/a.ts', text: lines(500) }])).toEqual([])
  expect(findLarge([{ file: 'http/src/a.ts', text: lines(501) }])).toMatchObject([
    { size: 501, kind: 'file' },
  ])
})

test.each([
  ['a function', 'a.ts', `export function walk() {\n${lines(79)}}`, 'a.ts walk'],
  ['an arrow function', 'a.ts', `const walk = async () => {\n${lines(79)}}`, 'a.ts walk'],
  ['a method', 'a.ts', `class Tree {\n  walk() {\n${lines(79)}}\n}`, 'a.ts Tree.walk'],
  ['a private method', 'a.ts', `class Tree {\n  #walk() {\n${lines(79)}}\n}`, 'a.ts Tree.walk'],
  ['a member', 'a.ts', `const tree = {\n  walk: () => {\n${lines(79)}},\n}`, 'a.ts tree.walk'],
  ['a function of JSX that is no component', 'a.tsx', `function row() {\n${lines(79)}}`, 'a.tsx row'],
])('%s of more than 80 lines is large', (_title, file, text, place) => {
  expect(findLarge([{ file: `http/src/${file}`, text }])).toEqual([
    { place: `http/src/${place}`, size: 81, kind: 'function' },
  ])
  expect(findLarge([{ file: `http/src/${file}`, text: text.replace('f()\n', '') }])).toEqual([])
})

test('a component may have 120 lines', () => {
  const component = (count: number) => [
    { file: 'console/src/a.tsx', text: `function Row() {\n${lines(count)}}` },
  ]
  expect(findLarge(component(118))).toEqual([])
  expect(findLarge(component(119))).toMatchObject([{ place: 'console/src/a.tsx Row', kind: 'component' }])
})

test('an exception allows its size and no more, and fails when nothing needs it', () => {
  const large = findLarge([{ file: 'http/src/a.ts', text: lines(510) }])
  expect(findSizeViolations(large, { 'http/src/a.ts': 510 })).toEqual([])
  expect(findSizeViolations(large, {})).toEqual(['http/src/a.ts: 510 lines; a file has at most 500'])
  expect(findSizeViolations(large, { 'http/src/a.ts': 505 })).toEqual([
    'http/src/a.ts: 510 lines; a file has at most 505',
  ])
  expect(findSizeViolations([], { 'http/src/a.ts': 510 })).toEqual([
    'http/src/a.ts: is small enough; remove it from scripts/size-exceptions.ts',
  ])
})
