import { expect, test } from 'vitest'
import { cutTexts, fitItems, fitMember, maxAnswerLength } from './bounded-json.ts'

test('long texts are cut at any depth, never within a character', () => {
  expect(cutTexts({ a: ['x'.repeat(5)], b: 1, c: null }, 3)).toEqual({
    a: ['xxx… [2 more characters]'],
    b: 1,
    c: null,
  })
  expect(String(cutTexts('ab😀cd', 3)).isWellFormed()).toBe(true)
})

test.for([
  [[], 0],
  [[{ a: 'short' }], 0],
  [Array.from({ length: 100 }, () => ({ a: 'x'.repeat(100_000) })), 0],
  [Array.from({ length: 500 }, () => ({ a: 'x'.repeat(300) })), 200],
  [[Array.from({ length: 50_000 }, () => 'x'), 'second'], 1],
] as const)('items %# fit with at least %i left out', ([items, omitted]) => {
  const fitted = fitItems(items)
  expect(JSON.stringify(fitted.items).length).toBeLessThan(maxAnswerLength * 2)
  expect(fitted.omitted).toBeGreaterThanOrEqual(omitted)
  expect(fitted.items).toHaveLength(items.length - fitted.omitted)
  if (items.length > 0) expect(fitted.items.length).toBeGreaterThan(0)
})

test('an answer says what was left out', () => {
  expect(fitMember('hits', [1])).toEqual({ hits: [1] })
  const many = Array.from({ length: 500 }, () => 'x'.repeat(300))
  expect(fitMember('hits', many)).toMatchObject({ omitted: expect.any(Number), note: expect.any(String) })
})
