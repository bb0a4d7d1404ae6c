import fc from 'fast-check'
import { expect, test } from 'vitest'
import * as z from 'zod'
import { actionParameters, parseAction } from './action-parameters.ts'
import { type Action, action } from './registry.ts'

const kinds: readonly Action['kind'][] = action.options.map((option) => option.shape.kind.value)

/** Values that fit a schema of ours, read from the schema as a model reads it. */
function matchingValues(schema: Record<string, unknown>): fc.Arbitrary<unknown> {
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  const { minimum = -1000 } = schema
  switch (schema.type) {
    case 'string':
      return fc.string({ unit: 'binary' })
    case 'boolean':
      return fc.boolean()
    case 'integer':
      return fc.integer({ min: Number(minimum), max: 1000 })
    case 'number':
      return fc.double({ min: Number(minimum), max: 1000, noNaN: true })
    case 'array':
      return fc.array(matchingValues(schema.items as Record<string, unknown>), { maxLength: 4 })
    case 'object':
      return matchingObjects(schema)
    default:
      throw new Error(`a schema that a model may not understand: ${JSON.stringify(schema)}`)
  }
}

function matchingObjects(schema: Record<string, unknown>): fc.Arbitrary<unknown> {
  const name = fc.string({ minLength: 1 }).filter((text) => text !== '__proto__')
  if (schema.properties === undefined) return fc.dictionary(name, fc.jsonValue())
  const properties = Object.entries(schema.properties as Record<string, Record<string, unknown>>)
  return fc.record(Object.fromEntries(properties.map(([name, member]) => [name, matchingValues(member)])), {
    requiredKeys: (schema.required ?? []) as string[],
    noNullPrototype: true,
  })
}

test('there are parameters for each of the 28 kinds', () => {
  expect(kinds).toHaveLength(28)
})

test.each(kinds)('the parameters of %s are plain: one object, no reference, no kind, no null', (kind) => {
  const parameters = actionParameters(kind)
  expect(parameters).toMatchObject({ type: 'object', additionalProperties: false })
  const text = JSON.stringify(parameters)
  expect(text).not.toMatch(/\$ref|\$defs|"null"|"kind"|9007199254740991/)
  for (const name of parameters.required as string[])
    expect((parameters.properties as Record<string, object>)[name]).not.toHaveProperty('default')
})

test.each(kinds)('what fits the parameters of %s is an action that reads as itself', (kind) => {
  fc.assert(
    fc.property(matchingValues(actionParameters(kind)), (args) => {
      const first = parseAction(kind, args as Record<string, unknown>)
      expect(first).toHaveProperty('action')
      if (!('action' in first)) return
      expect(first.action).toMatchObject({ ...(args as object), kind })
      expect(action.parse(first.action)).toEqual(first.action)
      const { kind: _, ...again } = first.action
      expect(parseAction(kind, again)).toEqual(first)
    }),
    { numRuns: 40 },
  )
})

test('a member that is called __proto__ is left out of free-form data, and nothing else is touched', () => {
  const data: unknown = JSON.parse('{"__proto__":{"polluted":1},"a":{"__proto__":[]}}')
  const read = parseAction('MCPToolAction', { data })
  expect(JSON.stringify(read)).toBe('{"action":{"data":{"a":{"__proto__":[]}},"kind":"MCPToolAction"}}')
  expect(Reflect.get({}, 'polluted')).toBeUndefined()
})

test.each(kinds)('the parameters of %s are a JSON Schema that says the same as the action', (kind) => {
  const schema = z.fromJSONSchema(actionParameters(kind) as z.core.JSONSchema.JSONSchema)
  fc.assert(
    fc.property(matchingValues(actionParameters(kind)), (args) => {
      expect(schema.safeParse(args).success).toBe(true)
    }),
    { numRuns: 20 },
  )
  expect(schema.safeParse({ 'not a parameter': 1 }).success).toBe(false)
})

test('faults are told in one sentence with their places', () => {
  expect(parseAction('FileEditorAction', { command: 'view', view_range: ['a'], more: 1 })).toEqual({
    error:
      'The arguments do not fit: path: Field required; view_range.0: Input should be a valid number; more: Extra inputs are not permitted.',
  })
})

test('many faults are cut short', () => {
  const args = Object.fromEntries(Array.from({ length: 30 }, (_, at) => [`x${at}`, 1]))
  const result = parseAction('ThinkAction', { thought: 't', ...args })
  expect('error' in result && result.error).toMatch(/and 22 more\.$/)
})

test('a kind among the arguments does not change what they are read as', () => {
  expect(parseAction('ThinkAction', { thought: 't', kind: 'FinishAction' })).toEqual({
    action: { thought: 't', kind: 'ThinkAction' },
  })
})

test('a member named __proto__ changes no prototype', () => {
  const result = parseAction('ThinkAction', JSON.parse('{"thought":"t","__proto__":{"x":1}}'))
  if ('action' in result) expect(Object.getPrototypeOf(result.action)).toBe(Object.prototype)
  expect('x' in {}).toBe(false)
})
