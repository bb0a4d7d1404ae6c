import { expect, test } from 'vitest'
import type { QuestionField } from '../../tools/core/server-question.ts'
import { readAnswer } from './question-answer.ts'

const field = (type: QuestionField['type'], more: Partial<QuestionField> = {}): QuestionField => ({
  type,
  isRequired: true,
  ...more,
})
const form = {
  name: field('string'),
  age: field('integer'),
  color: field('string', { choices: ['red', 'blue'], default: 'red' }),
  sure: field('boolean', { isRequired: false }),
}

test.for([
  ['{"name": "Ada", "age": 36}', { name: 'Ada', age: 36, color: 'red' }],
  ['name: Ada\n age = 36\nsure: yes', { name: 'Ada', age: 36, color: 'red', sure: true }],
  ['name: a: b\nage: 1\ncolor: blue', { name: 'a: b', age: 1, color: 'blue' }],
  ['name: Ada', undefined],
  ['name: Ada\nage: old', undefined],
  ['name: Ada\nage: 1.5', undefined],
  ['name: Ada\nage: 3\ncolor: green', undefined],
  ['Do something else: now', undefined],
  ['', undefined],
] as const)('a message answers a form, or does not: %j', ([text, content]) => {
  expect(readAnswer(form, text)).toEqual(content)
})

test('one wanted field takes the message as its value', () => {
  expect(
    readAnswer({ city: field('string'), note: field('string', { isRequired: false }) }, ' Delft '),
  ).toEqual({
    city: 'Delft',
  })
  expect(readAnswer({ tags: field('array', { choices: ['a', 'b'] }) }, 'a, b')).toEqual({ tags: ['a', 'b'] })
  expect(readAnswer({ sure: field('boolean') }, 'No')).toEqual({ sure: false })
  expect(readAnswer({ sure: field('boolean') }, 'Stop and look at the log')).toBe(undefined)
  expect(readAnswer({}, 'yes')).toBe(undefined)
})
