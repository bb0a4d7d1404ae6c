import { isDeepStrictEqual } from 'node:util'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import { fitPropertyName } from '../capabilities/fit-names.ts'

/**
 * Schemas of tools as every provider takes them. One that a provider refuses fails each request that has the
 * tool, and a server of tools may send any JSON Schema.
 *
 * A fitted schema is an object with properties, without forms at the top (`anyOf` and the like, whose
 * properties are its own then); arrays have items, references lead somewhere, a type stands in the forms and
 * not beside them, and what is required exists. It allows more than the given one: a call is checked against
 * that.
 */

type Schema = Readonly<Record<string, unknown>>

const known = new WeakMap<Schema, Schema>()
const topForms = ['allOf', 'anyOf', 'oneOf'] as const
/** Members that providers refuse at the top. */
const refusedAtTop: readonly string[] = [...topForms, 'enum', 'not', '$ref']
const schemaMaps = ['properties', '$defs', 'definitions', 'patternProperties']
const schemaLists = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const schemaMembers = ['items', 'not', 'additionalProperties']

/** The same object when nothing has to be fitted, and each time for the same one. */
export function fitSchema(schema: Schema): Schema {
  const found = known.get(schema)
  if (found !== undefined) return found
  const fitted = fitInner(fitTop(schema), schema)
  const isSame = isDeepStrictEqual(fitted, schema)
  known.set(schema, isSame ? schema : fitted)
  return isSame ? schema : fitted
}

function fitTop(root: Schema): Schema {
  const { properties, required, ...rest } = merge(root, root)
  const own = isRecord(properties) ? properties : {}
  const names = (Array.isArray(required) ? required : []).filter(
    (name, index, all) => typeof name === 'string' && name in own && all.indexOf(name) === index,
  )
  const members = Object.entries(rest).filter(([name]) => !refusedAtTop.includes(name) && name !== 'type')
  return {
    type: 'object',
    ...Object.fromEntries(members),
    properties: own,
    ...((names.length > 0 || Array.isArray(required)) && { required: names }),
  }
}

const maxDepth = 8

/** A schema with the properties of its forms; only what all of them require stays required. */
function merge(schema: Schema, root: Schema, depth = 0): Schema {
  if (depth > maxDepth) return {}
  const target = typeof schema.$ref === 'string' ? resolve(schema.$ref, root) : undefined
  const forms = topForms.flatMap((kind) =>
    (Array.isArray(schema[kind]) ? schema[kind] : [])
      .filter(isRecord)
      .map((form) => ({ kind, form: merge(form, root, depth + 1) })),
  )
  const all = [
    ...(target === undefined || target === schema ? [] : [merge(target, root, depth + 1)]),
    ...forms.map(({ kind, form }) => (kind === 'allOf' ? form : { properties: form.properties })),
  ]
  const properties = Object.assign({}, ...all.map((form) => form.properties), schema.properties)
  const required = [schema, ...all].flatMap((form) => (Array.isArray(form.required) ? form.required : []))
  const hasRequired = [schema, ...all].some((form) => Array.isArray(form.required))
  const { required: _, ...rest } = schema
  return { ...rest, properties, ...(hasRequired && { required }) }
}

function fitInner(schema: Schema, root: Schema): Schema {
  const fitted: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(schema)) {
    if (schemaMaps.includes(name) && isRecord(value))
      fitted[name] = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fitAny(one, root)]))
    else if (schemaLists.includes(name) && Array.isArray(value))
      fitted[name] = value.map((one: unknown) => fitAny(one, root))
    else if (schemaMembers.includes(name)) fitted[name] = fitAny(value, root)
    else if (name !== '$ref' || leadsToSchema(value, root)) fitted[name] = value
  }
  if ([fitted.type].flat().includes('array') && !('items' in fitted)) fitted.items = {}
  const { anyOf, type } = fitted
  if (!Array.isArray(anyOf) || type === undefined) return fitted
  const { type: _, ...rest } = fitted
  const withType = (form: unknown) =>
    isRecord(form) && form.type === undefined && form.$ref === undefined ? { ...form, type } : form
  return { ...rest, anyOf: anyOf.map(withType) }
}

function fitAny(value: unknown, root: Schema): unknown {
  return isRecord(value) ? fitInner(value, root) : value
}

function leadsToSchema(reference: unknown, root: Schema): boolean {
  return typeof reference === 'string' && resolve(reference, root) !== undefined
}

function resolve(reference: string, root: Schema): Schema | undefined {
  if (!reference.startsWith('#')) return undefined
  let found: unknown = root
  for (const part of reference.slice(1).split('/').filter(Boolean)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    found = isRecord(found) ? found[name] : undefined
  }
  return isRecord(found) ? found : undefined
}

/** With names of properties that Claude takes. */
export function withFittedKeys(schema: Schema): Schema {
  const { properties, required } = schema
  const keys = Object.keys(isRecord(properties) ? properties : {})
  if (!isRecord(properties) || keys.every((key) => fitPropertyName(key) === key)) return schema
  const renamed = Object.fromEntries(keys.map((key) => [fitPropertyName(key), properties[key]]))
  return {
    ...schema,
    properties: renamed,
    ...(Array.isArray(required) && { required: required.map((name) => fitPropertyName(String(name))) }),
  }
}

/** The arguments of a call with the names of its schema, from those that `withFittedKeys` gave. */
export function withOwnKeys(input: string, schema: Schema): string {
  const { properties } = fitSchema(schema)
  const odd = Object.keys(isRecord(properties) ? properties : {}).filter(
    (key) => fitPropertyName(key) !== key,
  )
  const given = odd.length === 0 ? undefined : parseJsonObject(input)
  if (given === undefined) return input
  const own = new Map(odd.map((key) => [fitPropertyName(key), key]))
  return JSON.stringify(
    Object.fromEntries(Object.entries(given).map(([key, value]) => [own.get(key) ?? key, value])),
  )
}
