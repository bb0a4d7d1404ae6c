import fc from 'fast-check'
import type { OpenApiDocument } from './openapi-requests.ts'
import { isObject, type Json, resolveReference } from './schema-arbitraries.ts'

/** A value for one text, number or switch of a body; the rest of the body is the least that is valid. */
export interface BodyCase {
  /** Names of members, `[]` for items of a list and `{}` for any member. */
  readonly place: string
  readonly leaf: Json
  /** The body with this value at the place. */
  readonly build: (value: unknown) => unknown
}

/** Members nest at most so deep. */
const maxDepth = 5

/** A case for each text, number and switch that a schema describes. Components are entered once each. */
export function listBodyCases(document: OpenApiDocument, schema: unknown): BodyCase[] {
  const entered = new Set<unknown>()
  const walk = (node: unknown, place: string, build: BodyCase['build'], depth: number): BodyCase[] => {
    const reference = isObject(node) ? node.$ref : undefined
    if (depth > maxDepth || (reference !== undefined && entered.has(reference))) return []
    if (reference !== undefined) entered.add(reference)
    const one = resolveReference(document, node)
    const alternatives = listAlternatives(one)
    if (alternatives !== undefined) return alternatives.flatMap((inner) => walk(inner, place, build, depth))
    if (one.type === 'array') return walk(one.items, `${place}[]`, (value) => build([value]), depth + 1)
    if (one.type !== 'object')
      return ['string', 'integer', 'number', 'boolean'].includes(String(one.type))
        ? [{ place, leaf: one, build }]
        : []
    const members = isObject(one.properties) ? Object.entries(one.properties) : []
    const others = isObject(one.additionalProperties) && Object.keys(one.additionalProperties).length > 0
    const cases = members.flatMap(([name, inner]) => {
      const least = leastValue(document, {
        ...one,
        required: requiredOf(one).filter((each) => each !== name),
      })
      return walk(
        inner,
        `${place}.${name}`,
        (value) => build({ ...(least as object), [name]: value }),
        depth + 1,
      )
    })
    return others
      ? [...cases, ...walk(one.additionalProperties, `${place}{}`, (value) => build({ a: value }), depth + 1)]
      : cases
  }
  return walk(schema, '', (value) => value, 0)
}

function requiredOf(schema: Json): string[] {
  return Array.isArray(schema.required) ? schema.required.map(String) : []
}

/** The alternatives of a union without null; undefined where there is none. */
function listAlternatives(schema: Json): readonly unknown[] | undefined {
  const { anyOf, oneOf, type, ...rest } = schema
  const alternatives = anyOf ?? oneOf
  if (Array.isArray(alternatives)) return alternatives.filter((one) => !isObject(one) || one.type !== 'null')
  return Array.isArray(type)
    ? type.filter((one) => one !== 'null').map((one) => ({ ...rest, type: one }))
    : undefined
}

/** The smallest value that a schema accepts, as far as its own words tell. */
export function leastValue(document: OpenApiDocument, schema: unknown): unknown {
  const one = resolveReference(document, schema)
  if ('const' in one) return one.const
  if (Array.isArray(one.enum)) return one.enum[0]
  const alternatives = listAlternatives(one)
  if (alternatives !== undefined) return leastValue(document, alternatives[0])
  switch (one.type) {
    case 'object': {
      const properties = isObject(one.properties) ? one.properties : {}
      return Object.fromEntries(requiredOf(one).map((name) => [name, leastValue(document, properties[name])]))
    }
    case 'array':
      return Array.from({ length: Number(one.minItems ?? 0) }, () => leastValue(document, one.items))
    case 'string':
      return leastText(one)
    case 'integer':
    case 'number':
      return Number(one.minimum ?? Number(one.exclusiveMinimum ?? 0) + 1)
    case 'boolean':
      return true
    default:
      return null
  }
}

const textsOfFormats: Readonly<Record<string, string>> = {
  uuid: '0190a8d4-3a64-7000-8000-000000000001',
  'date-time': '2026-01-01T00:00:00Z',
  uri: 'http://127.0.0.1:9/',
}

function leastText({ format, pattern, minLength }: Json): string {
  const ofFormat = textsOfFormats[String(format)]
  if (ofFormat !== undefined) return ofFormat
  const length = Math.max(Number(minLength ?? 0), 1)
  if (typeof pattern !== 'string') return 'a'.repeat(length)
  const candidates = [
    'a',
    'A',
    '/a',
    '0',
    `sha256:${'0'.repeat(64)}`,
    'a'.repeat(64),
    '0'.repeat(40),
    '1.0.0',
    'https://a.b/',
    'a/b',
    '/',
  ]
  return candidates.find((text) => new RegExp(pattern, 'u').test(text)) ?? 'a'
}

/** Texts, numbers and switches about the bounds of a schema, and values of other types. */
export function leafValues(leaf: Json): fc.Arbitrary<unknown> {
  const { type, format, enum: words } = leaf
  const other = fc.constantFrom<unknown>(5, -1, 1.5, true, 'x', '', [], {}, ['x'], { a: 1 })
  if (Array.isArray(words))
    return fc.oneof(fc.constantFrom(...words), fc.constantFrom('none-such', ''), other)
  if (type === 'boolean') return fc.oneof(fc.boolean(), other)
  if (type !== 'string') return fc.oneof(numberValues(leaf), other)
  if (textsOfFormats[String(format)] !== undefined)
    return fc.oneof(fc.constant(textsOfFormats[String(format)]), fc.constant('not so'), other)
  return fc.oneof(textValues(leaf), other)
}

/** Texts of a parameter. */
export function drawTexts(document: OpenApiDocument, schema: Json, seed: number): string[] {
  const values = fc.sample(leafValues(resolveReference(document, schema)), { numRuns: 12, seed })
  return [...new Set(values.map((value) => (typeof value === 'object' ? 'x' : String(value))))]
}

/** The text of a parameter as its schema means it. */
export function readText(document: OpenApiDocument, schema: Json, text: string): unknown {
  const { type } = resolveReference(document, schema)
  if ((type === 'integer' || type === 'number') && /^-?\d/.test(text)) return Number(text)
  return type === 'boolean' && /^(?:true|false)$/.test(text) ? text === 'true' : text
}

function numberValues({
  type,
  minimum,
  maximum,
  exclusiveMinimum,
  exclusiveMaximum,
}: Json): fc.Arbitrary<number> {
  const bounds = [minimum, maximum, exclusiveMinimum, exclusiveMaximum].filter(
    (one) => typeof one === 'number',
  )
  const near = bounds.flatMap((bound) => [bound - 1, bound, bound + 1])
  const any =
    type === 'integer'
      ? fc.integer({ min: -5, max: 200 })
      : fc.double({ noNaN: true, noDefaultInfinity: true })
  return fc.oneof(any, fc.constantFrom(...near, 0, 1, -1))
}

function textValues(leaf: Json): fc.Arbitrary<string> {
  const { minLength, maxLength } = leaf
  const lengths = [minLength, maxLength].filter((one) => typeof one === 'number' && one < 100_000).map(Number)
  const near = lengths.flatMap((length) => [length - 1, length, length + 1]).filter((length) => length >= 0)
  return fc.oneof(
    fc.constantFrom(
      '',
      'a',
      'A',
      '/a',
      'a b',
      ' ',
      'a/b',
      '-a',
      'a:b',
      'ä',
      '😀',
      'https://a.b/c',
      leastText(leaf),
    ),
    fc.string({ maxLength: 12 }),
    ...(near.length === 0 ? [] : [fc.constantFrom(...near).map((length) => 'a'.repeat(length))]),
  )
}
