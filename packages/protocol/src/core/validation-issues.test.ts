import { expect, test } from 'vitest'
import * as z from 'zod'
import { validationIssues } from './validation-issues.ts'

function issues(schema: z.ZodType, value: unknown) {
  const result = schema.safeParse(value)
  return result.success ? [] : validationIssues(result.error, ['body'], value)
}

test.each([
  [z.string(), 1, 'string_type', 'Input should be a valid string'],
  [z.number(), '1', 'float_type', 'Input should be a valid number'],
  [z.int(), 1.5, 'int_from_float', 'Input should be a valid integer, got a number with a fractional part'],
  [z.boolean(), 'true', 'bool_type', 'Input should be a valid boolean'],
  [z.array(z.string()), {}, 'list_type', 'Input should be a valid list'],
  [z.object({}), [], 'model_type', 'Input should be an object'],
  [z.record(z.string(), z.string()), 1, 'dict_type', 'Input should be a valid dictionary'],
  [z.string().min(1), '', 'string_too_short', 'String should have at least 1 character'],
  [z.string().max(2), 'abc', 'string_too_long', 'String should have at most 2 characters'],
  [z.array(z.string()).min(1), [], 'too_short', 'List should have at least 1 item'],
  [z.array(z.string()).max(1), ['', ''], 'too_long', 'List should have at most 1 item'],
  [z.number().gt(0), 0, 'greater_than', 'Input should be greater than 0'],
  [z.number().gte(1), 0, 'greater_than_equal', 'Input should be greater than or equal to 1'],
  [z.number().lt(0), 0, 'less_than', 'Input should be less than 0'],
  [z.number().lte(1), 2, 'less_than_equal', 'Input should be less than or equal to 1'],
  [z.number().multipleOf(2), 1, 'multiple_of', 'Input should be a multiple of 2'],
  [z.enum(['a', 'b', 'c']), 'd', 'enum', "Input should be 'a', 'b' or 'c'"],
  [z.literal('a'), 'd', 'literal_error', "Input should be 'a'"],
  [z.literal(null), 'd', 'literal_error', 'Input should be null'],
])('%# a wrong value has a stable word and a plain sentence', (schema, value, type, msg) => {
  expect(issues(schema, value)).toEqual([{ loc: ['body'], msg, type }])
})

test('what is missing is missing, what is there and null is of a wrong type', () => {
  const schema = z.object({ a: z.array(z.object({ b: z.string(), c: z.enum(['x']), d: z.literal('y') })) })
  expect(issues(schema, { a: [{}] })).toEqual(
    ['b', 'c', 'd'].map((name) => ({ loc: ['body', 'a', 0, name], msg: 'Field required', type: 'missing' })),
  )
  expect(issues(schema, { a: [{ b: null, c: null, d: null }] })).toMatchObject([
    { type: 'string_type' },
    { type: 'literal_error' },
    { type: 'literal_error' },
  ])
  expect(issues(schema, undefined)).toEqual([{ loc: ['body'], msg: 'Field required', type: 'missing' }])
})

test('each member too many is its own fault', () => {
  expect(issues(z.strictObject({}), { a: 1, b: 2 })).toEqual(
    ['a', 'b'].map((name) => ({
      loc: ['body', name],
      msg: 'Extra inputs are not permitted',
      type: 'extra_forbidden',
    })),
  )
})

test('a thousand faults are shown as a hundred', () => {
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`m${i}`, i]))
  expect(issues(z.strictObject({}), many)).toHaveLength(100)
  expect(issues(z.record(z.string(), z.string()), many)).toHaveLength(100)
})

test('a union with a tag is judged by its tag', () => {
  const schema = z.discriminatedUnion('kind', [
    z.strictObject({ kind: z.literal('A'), a: z.string() }),
    z.strictObject({ kind: z.literal('B'), b: z.string() }),
  ])
  expect(issues(schema, { kind: 'B' })).toEqual([
    { loc: ['body', 'b'], msg: 'Field required', type: 'missing' },
  ])
  for (const [kind, shown] of [
    ['OtherEvent', "Unknown kind 'OtherEvent'"],
    ['sk-a-key-of-somebody', 'Unknown kind'],
    [7, 'Unknown kind'],
  ])
    expect(issues(schema, { kind })).toEqual([
      { loc: ['body', 'kind'], msg: `${shown}. Input should be 'A' or 'B'`, type: 'union_tag_invalid' },
    ])
  expect(issues(schema, {})).toEqual([{ loc: ['body', 'kind'], msg: 'Field required', type: 'missing' }])
})

test('a fault of ours may carry its own word', () => {
  const even = z.number().refine((n) => n % 2 === 0, { message: 'Odd', params: { type: 'odd' } })
  expect(issues(even, 1)).toEqual([{ loc: ['body'], msg: 'Odd', type: 'odd' }])
  expect(
    issues(
      z.number().refine(() => false, 'No'),
      1,
    ),
  ).toEqual([{ loc: ['body'], msg: 'No', type: 'value_error' }])
})
