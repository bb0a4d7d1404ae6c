import { expect, test } from 'vitest'
import { asRecord, isRecord, parseJson, parseJsonObject } from './json.ts'

test('isRecord accepts objects, and neither null nor arrays', () => {
  expect([{}, { a: 1 }].every(isRecord)).toBe(true)
  expect([null, undefined, [], 'text', 1].some(isRecord)).toBe(false)
})

test('parseJson returns undefined for a text that is not JSON', () => {
  expect(parseJson('{"a":[1]}')).toEqual({ a: [1] })
  expect(parseJson('null')).toBeNull()
  expect(parseJson('{"a":')).toBeUndefined()
})

test('asRecord and parseJsonObject accept objects only', () => {
  expect([asRecord({ a: 1 }), asRecord([1]), asRecord(null)]).toEqual([{ a: 1 }, {}, {}])
  expect([parseJsonObject('{"a":1}'), parseJsonObject('[1]'), parseJsonObject('{')]).toEqual([
    { a: 1 },
    undefined,
    undefined,
  ])
})
