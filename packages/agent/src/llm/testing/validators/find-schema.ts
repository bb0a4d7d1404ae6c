import { isRecord } from '@slipway/shared/json'
import type { Finding, Rule } from './rule.ts'

type Find = Rule['find']
type Json = Record<string, unknown>

const combinators = ['oneOf', 'anyOf', 'allOf', 'enum', 'not', '$ref'] as const

export const untypedSchemas: Find = ({ tools }) =>
  tools
    .filter(({ schema }) => schema.type !== 'object')
    .map(({ at, schema }) => ({ at: `${at}.parameters.type`, what: String(schema.type) }))

export const withoutProperties: Find = ({ tools }) =>
  tools
    .filter(({ schema }) => !isRecord(schema.properties))
    .map(({ at }) => ({ at: `${at}.parameters`, what: 'no properties' }))

/** Members that combine schemas at the top level. */
export function topCombinators(names: readonly (typeof combinators)[number][] = combinators): Find {
  return ({ tools }) =>
    tools.flatMap(({ at, schema }) =>
      names.filter((name) => name in schema).map((name) => ({ at: `${at}.parameters.${name}`, what: name })),
    )
}

/** Visits a schema and those in it. */
function visit(schema: unknown, at: string, find: (schema: Json, at: string) => Finding[]): Finding[] {
  if (!isRecord(schema)) return []
  const inMap = ['properties', '$defs', 'definitions'].flatMap((name) =>
    isRecord(schema[name])
      ? Object.entries(schema[name]).flatMap(([key, one]) => visit(one, `${at}.${name}.${key}`, find))
      : [],
  )
  const inLists = ['anyOf', 'oneOf', 'allOf', 'prefixItems'].flatMap((name) =>
    Array.isArray(schema[name])
      ? schema[name].flatMap((one: unknown, index) => visit(one, `${at}.${name}.${index}`, find))
      : [],
  )
  const inOne = ['items', 'not', 'additionalProperties'].flatMap((name) =>
    visit(schema[name], `${at}.${name}`, find),
  )
  return [...find(schema, at), ...inMap, ...inLists, ...inOne]
}

const everySchema =
  (find: (schema: Json, at: string) => Finding[]): Find =>
  ({ tools }) =>
    tools.flatMap(({ at, schema }) => visit(schema, `${at}.parameters`, find))

export const arraysWithoutItems = everySchema((schema, at) =>
  [schema.type].flat().includes('array') && !('items' in schema)
    ? [{ at, what: 'an array without items' }]
    : [],
)

export function badKeys(pattern: RegExp): Find {
  return ({ tools }) =>
    tools.flatMap(({ at, schema }) =>
      Object.keys(isRecord(schema.properties) ? schema.properties : {})
        .filter((key) => !pattern.test(key))
        .map((key) => ({ at: `${at}.parameters.properties`, what: key })),
    )
}

/** Names of required members that are no properties. */
export const missingProperties: Find = ({ tools }) =>
  tools.flatMap(({ at, schema: { properties, required } }) =>
    (Array.isArray(required) ? required : [])
      .filter((name: unknown) => !isRecord(properties) || !(String(name) in properties))
      .map((name: unknown) => ({ at: `${at}.parameters.required`, what: String(name) })),
  )

/** A `type` beside the forms that have one. */
export const typesBesideForms = everySchema((schema, at) =>
  'anyOf' in schema && 'type' in schema ? [{ at, what: 'type beside anyOf' }] : [],
)

/** References to other documents, and those that lead nowhere. */
export const deadReferences: Find = ({ tools }) =>
  tools.flatMap(({ at, schema }) =>
    visit(schema, `${at}.parameters`, (one, place) => {
      const { $ref: reference } = one
      if (reference === undefined) return []
      return typeof reference === 'string' && leadsTo(schema, reference)
        ? []
        : [{ at: place, what: String(reference) }]
    }),
  )

function leadsTo(root: Json, reference: string): boolean {
  if (!reference.startsWith('#')) return false
  let found: unknown = root
  for (const name of reference.slice(1).split('/').filter(Boolean))
    found = isRecord(found) ? found[name.replaceAll('~1', '/').replaceAll('~0', '~')] : undefined
  return found !== undefined
}
