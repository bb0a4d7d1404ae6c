import fc from 'fast-check'
import { expect, test } from 'vitest'
import { fitSchema, withFittedKeys, withOwnKeys } from './fit-schema.ts'
import { mergeForms } from './merge-forms.ts'

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

test('Claude gets other names of properties, and its calls are mapped back', () => {
  const schema = { type: 'object', properties: { $top: { type: 'integer' }, name: {} }, required: ['$top'] }
  const sent = withFittedKeys(schema)
  const [key = '', ...more] = Object.keys(sent.properties as object) // it has some
  expect(key).toMatch(/^_top_\w{9}$/)
  expect(more).toEqual(['name'])
  expect(sent.required).toEqual([key])
  expect(withOwnKeys(`{"${key}":1,"name":"x"}`, schema)).toBe('{"$top":1,"name":"x"}')
  expect(withOwnKeys('{ "broken', schema)).toBe('{ "broken')
})

test('what forms at the top allow for one name is an enum of their values, or any of their schemas', () => {
  const variant = (kind: string, value: object, more: object = {}) => ({
    properties: { kind: { const: kind, title: kind }, value, same: { type: 'null' }, ...more },
    required: ['kind'],
  })
  const first = variant('a', { type: 'string' }, { kind: { type: 'string', enum: ['a', 'A'] } })
  const others = [variant('b', { type: 'object' }), { $ref: '#/$defs/c' }, variant('b', { type: 'object' })]
  const $defs = { c: variant('c', { type: 'string' }) }
  expect(fitSchema({ oneOf: [first, ...others], $defs }).properties).toEqual({
    kind: { type: 'string', enum: ['a', 'A', 'b', 'c'] },
    value: { anyOf: [{ type: 'string' }, { type: 'object' }] },
    same: { type: 'null' },
  })
  const mixed = { oneOf: [first, { properties: { kind: { const: 1 } } }], properties: { same: {} } }
  expect(fitSchema(mixed).properties).toMatchObject({
    kind: { anyOf: [{ enum: ['a', 'A'] }, { const: 1 }] },
    same: {},
  })
})

test('names of prototypes are names like others', () => {
  const schema = JSON.parse(`{
    "properties": { "a": { "$ref": "#/__proto__" }, "b": { "$ref": "#/toString" } },
    "anyOf": [{ "properties": { "__proto__": { "type": "string" } } }],
    "required": ["constructor", "a", "__proto__"]
  }`) // literals set the prototype
  expect(JSON.stringify(fitSchema(schema))).toBe(
    '{"type":"object","properties":{"__proto__":{"type":"string"},"a":{},"b":{}},"required":["a","__proto__"]}',
  )
})

test('what more than a hundred objects enclose is any value', () => {
  let deep: object = { type: 'string' }
  for (let depth = 0; depth < 20_000; depth++) deep = depth % 2 === 0 ? { not: deep } : { anyOf: [deep] }
  const text = JSON.stringify(fitSchema({ properties: { deep }, anyOf: [deep] }))
  expect(text.length).toBeLessThan(2_000)
  expect(text).toContain('{"not":{}}')
})

/** Forms that were merged, and a hundredth of their properties. */
function mergeCost(schema: object): number {
  const budget = { left: 1_000 }
  mergeForms({ ...schema }, budget)
  return 1_000 - budget.left
}

test('a schema of references to itself and to each other is merged in bounded time', () => {
  const refs = (names: readonly string[]) => names.map((name) => ({ $ref: name }))
  const own = { type: 'object', anyOf: refs(Array(40).fill('#')) }
  expect(mergeCost(own)).toBe(41)
  const names = Array.from({ length: 40 }, (_, at) => `d${at}`)
  const anyOf = refs(names.map((name) => `#/$defs/${name}`))
  const $defs = Object.fromEntries(names.map((name) => [name, { anyOf, properties: { [name]: {} } }]))
  expect(mergeCost({ anyOf, $defs })).toBeLessThan(1_002)
  expect(fitSchema({ anyOf, $defs })).toMatchObject({ type: 'object', properties: { d0: {} } })
})

test('every schema is fitted, with at most a thousand merged forms', () => {
  const reference = fc.constantFrom(
    '#',
    '#/$defs/a',
    '#/$defs/b',
    '#/properties/a',
    '#/__proto__',
    'x',
    '#/%',
  )
  const name = fc.constantFrom('a', 'b', 'constructor', '__proto__', '$ref')
  const { root } = fc.letrec((tie) => ({
    root: fc.oneof({ maxDepth: 3 }, fc.constantFrom<unknown>({}, true, null, 1, 'a', []), tie('schema')),
    forms: fc.array(tie('root'), { maxLength: 2 }),
    map: fc.dictionary(name, tie('root'), { maxKeys: 2 }),
    schema: fc.record(
      {
        ...{ $ref: reference, type: fc.constantFrom('object', 'array', ['array', 'null']), const: name },
        ...{ anyOf: tie('forms'), allOf: tie('forms'), properties: tie('map'), not: tie('root') },
        required: fc.array(name, { maxLength: 3 }),
      },
      { requiredKeys: [] },
    ),
  }))
  fc.assert(
    fc.property(fc.dictionary(fc.constantFrom('anyOf', 'allOf', 'properties', '$defs'), root), (schema) => {
      const { type, properties, required = [] } = fitSchema(schema)
      expect(type).toBe('object')
      expect(Object.keys(properties as object)).toEqual(expect.arrayContaining(required as string[]))
      expect(mergeCost(schema)).toBeLessThan(1_002)
    }),
    { seed: 1, numRuns: 100 },
  )
})
