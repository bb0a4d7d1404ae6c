import { expect, test } from 'vitest'
import type * as z from 'zod'
import { parseInstant } from './instant.ts'
import {
  emptyAsUndefined,
  eventSearchQuery,
  eventSortOrder,
  queryBoolean,
  queryInstant,
  queryInteger,
} from './query.ts'
import { validationIssues } from './validation-issues.ts'

function parse(schema: z.ZodType, value: unknown) {
  const result = schema.safeParse(value)
  return result.success ? result.data : validationIssues(result.error, ['query'], value)
}

test('a query without parameters has the defaults of the specification', () => {
  expect(parse(eventSearchQuery, {})).toEqual({ limit: 100, sort_order: 'TIMESTAMP' })
})

test('empty texts are absent, parameters that are not known are passed over', () => {
  expect(parse(eventSearchQuery, { kind: '', source: '', body: '', page_id: '', other: 'x' })).toEqual({
    kind: undefined,
    source: undefined,
    body: undefined,
    page_id: undefined,
    limit: 100,
    sort_order: 'TIMESTAMP',
  })
})

const invalidIntegerMessage = 'Input should be a valid integer, unable to parse string as an integer'
const invalidDateTimeMessage = 'Input should be a valid date-time'

test.each([
  ['limit', '0', 'greater_than', 'Input should be greater than 0'],
  ['limit', '-5', 'greater_than', 'Input should be greater than 0'],
  ['limit', '101', 'less_than_equal', 'Input should be less than or equal to 100'],
  ['limit', '9'.repeat(400), 'less_than_equal', 'Input should be less than or equal to 100'],
  ...['', ' ', 'x', '1.0', '1e2', '0x10', ' 5', '１'].map((text) => [
    'limit',
    text,
    'int_parsing',
    invalidIntegerMessage,
  ]),
  ['timestamp__gte', '', 'datetime_parsing', invalidDateTimeMessage],
  ['timestamp__lt', 'yesterday', 'datetime_parsing', invalidDateTimeMessage],
  ['sort_order', 'UP', 'enum', "Input should be 'TIMESTAMP' or 'TIMESTAMP_DESC'"],
])('%s=%s is refused with the place of the fault', (place, text, type, msg) => {
  expect(parse(eventSearchQuery, { [String(place)]: text })).toEqual([{ loc: ['query', place], msg, type }])
})

test.each([
  ['1', 1],
  ['100', 100],
  ['+7', 7],
  ['007', 7],
])('limit %s is %d', (text, limit) => {
  expect(parse(eventSearchQuery, { limit: text })).toMatchObject({ limit })
})

test('an integer below its least value is refused with that value', () => {
  expect(parse(queryInteger(0, 10), '-1')).toEqual([
    { loc: ['query'], msg: 'Input should be greater than or equal to 0', type: 'greater_than_equal' },
  ])
  expect(parse(queryInteger(0, 10), '-0')).toBe(0)
})

test('a plus of an offset may have arrived as a blank', () => {
  const instant = parseInstant('2026-03-01T10:00:00+02:00')
  for (const text of ['2026-03-01T10:00:00 02:00', '2026-03-01T10:00:00 0200', '2026-03-01T10:00:00+02:00']) {
    expect(parse(eventSearchQuery, { timestamp__gte: text })).toMatchObject({ timestamp__gte: instant })
  }
  expect(parse(eventSearchQuery, { timestamp__gte: '2026-03-01 10:00' })).toMatchObject({
    timestamp__gte: parseInstant('2026-03-01T10:00:00Z'),
  })
})

test('a bound keeps all its digits, and is rounded up where times are instants', () => {
  const text = '2026-03-01T10:00:00.0000019Z'
  const instant = parseInstant(text) ?? 0
  expect(parse(eventSearchQuery, { timestamp__lt: text })).toMatchObject({
    timestamp__lt: { instant, finer: '9' },
  })
  expect(parse(queryInstant, text)).toBe(instant + 1)
  expect(parse(queryInstant, 'x')).toMatchObject([{ loc: ['query'] }])
})

test('booleans have the usual spellings and no others', () => {
  for (const text of ['true', 'True', '1', 'yes', 'on']) expect(parse(queryBoolean, text)).toBe(true)
  for (const text of ['false', 'FALSE', '0', 'no', 'off']) expect(parse(queryBoolean, text)).toBe(false)
  for (const text of ['', '2', 'constructor']) {
    expect(parse(queryBoolean, text)).toMatchObject([{ loc: ['query'], type: 'bool_parsing' }])
  }
})

test('a blankable parameter is absent when it is empty, and checked otherwise', () => {
  const schema = emptyAsUndefined(eventSortOrder)
  expect(parse(schema, '')).toBeUndefined()
  expect(parse(schema, undefined)).toBeUndefined()
  expect(parse(schema, 'TIMESTAMP')).toBe('TIMESTAMP')
  expect(parse(schema, 'x')).toMatchObject([{ type: 'enum' }])
})
