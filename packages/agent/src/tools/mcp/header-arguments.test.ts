import { expect, test } from 'vitest'
import { canSendHeaders } from './header-arguments.ts'

const named = (header: unknown, type = 'string') => ({ type, 'x-mcp-header': header })

test.for([
  [true, {}],
  [true, { properties: { a: named('Region'), b: { properties: { c: named('Zone', 'integer') } } } }],
  [false, { properties: { a: named('Region'), b: named('region') } }],
  [false, { properties: { a: named('two words') } }],
  [false, { properties: { a: named('line\nbreak') } }],
  [false, { properties: { a: named('') } }],
  [false, { properties: { a: named('Region', 'object') } }],
  [false, { properties: { a: named(3) } }],
  [false, { properties: { a: { items: named('Region') } } }],
  [false, { oneOf: [{ properties: { a: named('Region') } }] }],
  [false, named('Region')],
] as const)('arguments go into headers: %s, %j', ([expected, schema]) => {
  expect(canSendHeaders(schema)).toBe(expected)
})
