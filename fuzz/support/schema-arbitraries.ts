import fc from 'fast-check'
import type { OpenApiDocument } from './openapi-requests.ts'

export type Json = Readonly<Record<string, unknown>>

/** Below this depth every value is plain JSON. */
const maxDepth = 4

/**
 * Values of a JSON schema, and sometimes others. `values` replaces members by name, whatever their schema.
 */
export function schemaValues(
  document: OpenApiDocument,
  schema: unknown,
  values: Readonly<Record<string, fc.Arbitrary<unknown>>> = {},
): fc.Arbitrary<unknown> {
  const arbitraryFor = (node: unknown, depth: number): fc.Arbitrary<unknown> => {
    const one = resolveReference(document, node)
    if (depth > maxDepth) return fc.jsonValue()
    const plausible =
      schemaAlternatives(one) ?? plainValue(one, (inner) => arbitraryFor(inner, depth + 1), values)
    return plausible instanceof fc.Arbitrary
      ? fc.oneof({ weight: 30, arbitrary: plausible }, { weight: 1, arbitrary: fc.jsonValue() })
      : fc.oneof(...plausible.map((inner) => arbitraryFor(inner, depth)))
  }
  return arbitraryFor(schema, 0)
}

/** A schema, its reference followed. */
export function resolveReference(document: OpenApiDocument, schema: unknown): Json {
  if (!isObject(schema)) return {}
  const { $ref } = schema
  if (typeof $ref !== 'string') return schema
  const steps = $ref.replace(/^#\//, '').split('/')
  const target = steps.reduce((at: unknown, step) => (isObject(at) ? at[step] : undefined), document)
  return resolveReference(document, target)
}

/** The alternatives of a schema; undefined when there is only one. */
function schemaAlternatives(schema: Json): readonly unknown[] | undefined {
  const { anyOf, oneOf, type, ...rest } = schema
  const alternatives = anyOf ?? oneOf
  if (Array.isArray(alternatives) && alternatives.length > 0) return alternatives
  return Array.isArray(type) ? type.map((one) => ({ ...rest, type: one })) : undefined
}

function plainValue(
  schema: Json,
  arbitraryFor: (inner: unknown) => fc.Arbitrary<unknown>,
  values: Readonly<Record<string, fc.Arbitrary<unknown>>>,
): fc.Arbitrary<unknown> {
  const { type } = schema
  if ('const' in schema) return fc.constant(schema.const)
  if (Array.isArray(schema.enum)) return fc.constantFrom(...schema.enum)
  if (type === 'string') return stringValue(schema)
  if (type === 'integer') return fc.oneof(fc.integer(), fc.integer({ min: -2, max: 5 }))
  if (type === 'number') return fc.double()
  if (type === 'boolean') return fc.boolean()
  if (type === 'null') return fc.constant(null)
  if (type === 'array') return fc.array(arbitraryFor(schema.items), { maxLength: 3 })
  if (type !== 'object') return fc.jsonValue()
  const members = isObject(schema.properties) ? Object.entries(schema.properties) : []
  const required = Array.isArray(schema.required) ? schema.required.map(String) : []
  const known = fc.record(
    Object.fromEntries(members.map(([name, inner]) => [name, values[name] ?? arbitraryFor(inner)])),
    { requiredKeys: required.filter((name) => members.some(([member]) => member === name)) },
  )
  const more = isObject(schema.additionalProperties)
    ? arbitraryFor(schema.additionalProperties)
    : fc.jsonValue()
  const others = fc.dictionary(fc.oneof(fc.string({ maxLength: 8 }), fc.constant('__proto__')), more, {
    maxKeys: 2,
  })
  return fc.tuple(known, others).map(([mine, theirs]) => ({ ...theirs, ...mine }))
}

function stringValue({ format, minLength, maxLength }: Json): fc.Arbitrary<string> {
  if (format === 'uuid') return fc.uuid()
  if (format === 'date-time') return fc.date({ noInvalidDate: true }).map((date) => date.toISOString())
  const min = typeof minLength === 'number' ? minLength : 0
  const max = typeof maxLength === 'number' ? Math.min(maxLength, 40) : 40
  return fc.oneof(
    fc.string({ minLength: min, maxLength: Math.max(min, max) }),
    fc.string({ unit: 'binary', minLength: min, maxLength: Math.max(min, max) }),
    fc.constantFrom('a', 'x-1', '\u0000', '\ud800', '😀', 'a/b', '../..', '__proto__'),
  )
}

export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
