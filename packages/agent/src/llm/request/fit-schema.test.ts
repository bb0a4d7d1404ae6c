import { expect, test } from 'vitest'
import { fitSchema, withFittedKeys, withOwnKeys } from './fit-schema.ts'

test('a schema that every provider takes stays the same object', () => {
  const schema = {
    type: 'object',
    properties: {
      mode: { anyOf: [{ type: 'integer' }, { type: 'null' }] },
      list: { type: 'array', items: {} },
    },
    required: ['mode'],
    additionalProperties: false,
  }
  expect(fitSchema(schema)).toBe(schema)
})

test('forms and references at the top give their properties to the schema', () => {
  const forms = {
    anyOf: [{ properties: { a: { type: 'string' } }, required: ['a'] }, { $ref: '#/$defs/b' }],
    allOf: [{ properties: { c: {} }, required: ['c'] }],
    $defs: { b: { properties: { b: { type: 'integer' } } } },
  }
  expect(fitSchema(forms)).toEqual({
    type: 'object',
    properties: { a: { type: 'string' }, b: { type: 'integer' }, c: {} },
    required: ['c'],
    $defs: forms.$defs,
  })
  expect(fitSchema({ $ref: '#/$defs/self', $defs: { self: { $ref: '#/$defs/self' } } })).toMatchObject({
    type: 'object',
    properties: {},
  })
})

test('inside, arrays have items, references lead somewhere, and types stand in the forms', () => {
  const fitted = fitSchema({
    properties: {
      list: { type: ['array', 'null'] },
      far: { $ref: 'https://h.test/a', description: 'Far.' },
      mode: { type: 'string', anyOf: [{ const: 'a' }, { type: 'integer' }] },
    },
    required: ['list', 'gone'],
  })
  expect(fitted).toEqual({
    type: 'object',
    properties: {
      list: { type: ['array', 'null'], items: {} },
      far: { description: 'Far.' },
      mode: { anyOf: [{ const: 'a', type: 'string' }, { type: 'integer' }] },
    },
    required: ['list'],
  })
})

test('Claude is told other names of properties, and its calls have the own ones', () => {
  const schema = { type: 'object', properties: { $top: { type: 'integer' }, name: {} }, required: ['$top'] }
  const sent = withFittedKeys(schema)
  const [key = '', ...more] = Object.keys(sent.properties as object) // it has some
  expect(key).toMatch(/^_top_\w{9}$/)
  expect(more).toEqual(['name'])
  expect(sent.required).toEqual([key])
  expect(withOwnKeys(`{"${key}":1,"name":"x"}`, schema)).toBe('{"$top":1,"name":"x"}')
  expect(withOwnKeys('{ "broken', schema)).toBe('{ "broken')
})
