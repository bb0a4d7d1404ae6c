import { expect, test } from 'vitest'
import { must } from './assert.ts'
import { invalidInput, Problem } from './problem.ts'

test('must hands on what is there, also what is falsy, and throws on what is missing', () => {
  expect(must(0, 'zero')).toBe(0)
  expect(must('', 'empty')).toBe('')
  expect(() => must(undefined, 'the thing')).toThrow('missing: the thing')
  expect(() => must(null, 'the thing')).not.toThrow(Problem)
})

test('an invalid input is a problem with one issue', () => {
  const problem = invalidInput(['query', 'limit'], 'No', 'greater_than')
  expect(problem).toMatchObject({
    code: 'invalid',
    issues: [{ loc: ['query', 'limit'], msg: 'No', type: 'greater_than' }],
  })
})
