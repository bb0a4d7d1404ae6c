import { matchesGlob } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { commandPattern, Glob, keywordPattern } from './patterns.ts'

const unspaced =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]/u
const word = fc.stringMatching(/^[\p{Lu}\p{Ll}\p{N}_]{1,8}$/u).filter((text) => !unspaced.test(text))

test('a keyword is found exactly when it is a word of the text, and never inside of one', () => {
  const other = fc.string({ unit: 'binary' }).filter((text) => !unspaced.test(text))
  const texts = fc.tuple(word, fc.array(fc.oneof(word, other, fc.constant(undefined), fc.constant(' '))))
  fc.assert(
    fc.property(texts, ([keyword, parts]) => {
      const text = parts.map((part) => part ?? keyword).join('')
      const words = text.match(/[\p{L}\p{M}\p{N}_]+/gu) ?? []
      const same = new RegExp(`^${RegExp.escape(keyword)}$`, 'iu')
      expect(keywordPattern(keyword)(text)).toBe(words.some((one) => same.test(one)))
    }),
    { numRuns: 500 },
  )
})

test('a keyword is found as its own word, in any case, with anything but words around it', () => {
  const around = fc.stringMatching(/^[\s.,;:!?()"'`/-]{0,4}$/)
  fc.assert(
    fc.property(word, around, around, (keyword, before, after) => {
      expect(keywordPattern(keyword)(`x ${before}${keyword}${after} x`)).toBe(true)
      expect(keywordPattern(keyword)(`${keyword}x ${before}${keyword}${after}`)).toBe(true)
    }),
  )
  expect(keywordPattern('GitHub')('push it to github!')).toBe(true)
  expect(keywordPattern('pull request')('a Pull\n  Request')).toBe(true)
  expect(keywordPattern('a a')('xa a a')).toBe(true)
})

test('a keyword that ends in signs, and one of a script without spaces, are found where they stand', () => {
  expect(keywordPattern('c++')('is this C++?')).toBe(true)
  expect(keywordPattern('c++')('abc++')).toBe(false)
  expect(keywordPattern('部署')('请部署应用')).toBe(true)
  expect(keywordPattern('git')('使用git提交')).toBe(true)
  expect(keywordPattern('git')('𝐚git')).toBe(false)
  expect(keywordPattern('😀')('x😀x')).toBe(true)
  expect(keywordPattern('.*')('anything')).toBe(false)
})

test('a command is found on its own only', () => {
  const isIn = commandPattern('/deploy')
  for (const text of ['/deploy', 'please /Deploy now', 'a\n/deploy\nb']) expect(isIn(text)).toBe(true)
  for (const text of ['/deployment', 'src/deploy', 'deploy', './deploy', '/deploy/x'])
    expect(isIn(text)).toBe(false)
  expect(commandPattern('/deploy', 'start')(' /deploy x')).toBe(true)
  expect(commandPattern('/deploy', 'start')('x /deploy')).toBe(false)
})

test.each([
  ['*.ts', 'a.ts', true],
  ['*.ts', 'src/deep/a.ts', true],
  ['*.ts', 'a.tsx', false],
  ['src/*.ts', 'src/a.ts', true],
  ['src/*.ts', 'src/x/a.ts', false],
  ['src/**/*.ts', 'src/a.ts', true],
  ['src/**/*.ts', 'src/x/y/a.ts', true],
  ['src/**/*.ts', 'other/src/a.ts', false],
  ['**/test/**', 'a/test/b', true],
  ['**/test/**', 'atest/b', false],
  ['src/**', 'src/x/y', true],
  ['docs/', 'docs/x/y.md', true],
  ['docs/', 'documents/x', false],
  ['./a/?.c', 'a/b.c', true],
  ['/a/?.c', 'a/bb.c', false],
  ['a?b', 'a/b', false],
  ['{a,b}/*.{js,ts}', 'b/x.ts', true],
  ['{a,b}/*.{js,ts}', 'c/x.ts', false],
  ['[a-c]x', 'bx', true],
  ['[!a-c]x', 'bx', false],
  ['[!a-c]x', 'dx', true],
  ['[', '[', true],
  ['a.c', 'abc', false],
] as const)('the glob %s and the path %s: %s', (glob, path, isMatch) => {
  expect(new Glob(glob).matches(path)).toBe(isMatch)
})

test('a glob with a slash means what the platform says it means', () => {
  const segment = fc.stringMatching(/^[abx]{1,3}$/)
  const part = fc.oneof(segment, fc.constantFrom('*', '**', '?', 'a*', '*b', '?x', 'a*b*'))
  const paths = fc.array(segment, { minLength: 1, maxLength: 4 })
  const globs = fc.array(part, { minLength: 2, maxLength: 4 })
  fc.assert(
    fc.property(globs, paths, (parts, segments) => {
      const [glob, path] = [parts.join('/'), segments.join('/')]
      // The platform lets a last `**` stand for the folder itself, which is no path of a file here.
      fc.pre(parts.at(-1) !== '**')
      expect(new Glob(glob).matches(path)).toBe(matchesGlob(path, glob))
    }),
    { numRuns: 2_000 },
  )
})

test('matching any glob against any path takes bounded time', () => {
  const hostile = [
    '*a'.repeat(120),
    '**/'.repeat(80),
    '{a,b}'.repeat(50),
    '{'.repeat(250),
    '[a'.repeat(120),
    '*'.repeat(256),
  ]
  for (const glob of hostile) {
    const compiled = new Glob(glob)
    expect(compiled.alternatives).toBeLessThanOrEqual(16)
    compiled.matches('a'.repeat(500))
    expect(compiled.matches('a/'.repeat(300_000))).toBe(false)
  }
})
