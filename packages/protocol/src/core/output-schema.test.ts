import { expect, test } from 'vitest'
import { readOutputSchema } from './output-schema.ts'

test('values are checked, and the places that do not fit are named', () => {
  const schema = readOutputSchema({
    type: 'object',
    properties: { n: { type: 'integer', minimum: 1 } },
    required: ['n'],
  })
  if ('issue' in schema) throw new Error(schema.issue)
  expect(schema.check({ n: 1, more: true })).toBeUndefined()
  expect(schema.check({ n: 0 })).toMatch(/^n: /)
  expect(schema.check({})).toContain('n')
  expect(schema.check([])).toBeDefined()
})

test.each([
  [{ type: 'array' }, 'of type object'],
  [{}, 'of type object'],
  [{ type: 'object', $ref: '#' }, 'cannot be used'],
  [{ type: 'object', properties: { a: { type: 'texts' } } }, 'cannot be used'],
  [{ type: 'object', properties: { a: { $ref: 'https://example.com/a' } } }, 'cannot be used'],
  [{ type: 'object', properties: { a: { type: 'string', pattern: '(' } } }, 'cannot be used'],
])('%j is refused', (schema, reason) => {
  expect(readOutputSchema(schema)).toEqual({ issue: expect.stringContaining(reason) })
})
