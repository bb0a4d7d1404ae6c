import fc from 'fast-check'
import { expect, test } from 'vitest'
import { compileGlobs } from './globs.ts'

const letters = (...all: string[]) => fc.string({ unit: fc.constantFrom(...all), maxLength: 12 })

test('a pattern matches what the same regular expression does', () => {
  fc.assert(
    fc.property(
      fc.array(letters('a', 'b', '/', '*', '?', '.'), { maxLength: 3 }),
      letters('a', 'b', '/', '.'),
      (patterns, path) => {
        const sources = patterns.map((pattern) =>
          pattern.replaceAll('.', '\\.').replaceAll('?', '[^/]').replaceAll('*', '.*'),
        )
        const expected = sources.some((source) => new RegExp(`(?:^|/)(?:${source})$`, 's').test(path))
        expect(compileGlobs(patterns)(path)).toBe(expected)
      },
    ),
    { numRuns: 3000 },
  )
})

test('the asterisks of a pattern cost no more than its other characters', () => {
  const isExcluded = compileGlobs([`${'*a'.repeat(500)}*b`])
  const started = performance.now()
  expect(isExcluded(`${'a/'.repeat(1000)}a`)).toBe(false)
  expect(performance.now() - started).toBeLessThan(2000)
})
