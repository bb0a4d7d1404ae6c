import { isDeepStrictEqual } from 'node:util'
import { isRecord, parseJsonObject } from '@slipway/shared/json'
import { fitPropertyName } from '../capabilities/fit-names.ts'
import { limitDepth, mergeForms, resolveReference, type Schema, topForms } from './merge-forms.ts'

/**
 * Schemas of tools as every provider takes them. One that a provider refuses fails each request that has the
 * tool, and a server of tools may send any JSON Schema.
 *
 * A fitted schema is an object with properties, without forms at the top (`anyOf` and the like, whose
 * properties are its own then); arrays have items, references lead somewhere, a type stands in the forms and
 * not beside them, and what is required exists. It allows more than the given one: a call is checked against
 * that.
 */

const known = new WeakMap<Schema, Schema>()
/** Members that providers refuse at the top. */
const refusedAtTop: readonly string[] = [...topForms, 'enum', 'not', '$ref']
const schemaMaps = ['properties', '$defs', 'definitions', 'patternProperties']
const schemaLists = ['allOf', 'anyOf', 'oneOf', 'prefixItems']
const schemaMembers = ['items', 'not', 'additionalProperties']

/** The same object when nothing has to be fitted, and each time for the same one. */
export function fitSchema(schema: Schema): Schema {
  const found = known.get(schema)
  if (found !== undefined) return found
  const root = limitDepth(schema)
  const fitted = fitInner(fitTop(root), root)
  const isSame = isDeepStrictEqual(fitted, schema)
  known.set(schema, isSame ? schema : fitted)
  return isSame ? schema : fitted
}

function fitTop(root: Schema): Schema {
  const { properties, required, ...rest } = mergeForms(root)
  const own = isRecord(properties) ? properties : {}
  const names = [...new Set<unknown>(Array.isArray(required) ? required : [])].filter(
    (name) => typeof name === 'string' && Object.hasOwn(own, name),
  )
  const members = Object.entries(rest).filter(([name]) => !refusedAtTop.includes(name) && name !== 'type')
  return {
    type: 'object',
    ...Object.fromEntries(members),
    properties: own,
    ...((names.length > 0 || Array.isArray(required)) && { required: names }),
  }
}

function fitInner(schema: Schema, root: Schema): Schema {
  const members = Object.entries(schema)
    .filter(([name, value]) => name !== '$ref' || leadsToSchema(value, root))
    .map(([name, value]) => [name, fitMember(name, value, root)])
  const fitted: Schema = Object.fromEntries(members)
  const { type, ...rest } = fitted
  const { anyOf } = rest
  const hasItems = Object.hasOwn(fitted, 'items') || ![type].flat().includes('array')
  const items = hasItems ? {} : { items: {} }
  if (!Array.isArray(anyOf) || type === undefined) return { ...fitted, ...items }
  const withType = (form: unknown) =>
    isRecord(form) && form.type === undefined && form.$ref === undefined ? { ...form, type } : form
  return { ...rest, ...items, anyOf: anyOf.map(withType) }
}

function fitMember(name: string, value: unknown, root: Schema): unknown {
  if (schemaMaps.includes(name) && isRecord(value))
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, fitAny(one, root)]))
  if (schemaLists.includes(name) && Array.isArray(value))
    return value.map((one: unknown) => fitAny(one, root))
  return schemaMembers.includes(name) ? fitAny(value, root) : value
}

function fitAny(value: unknown, root: Schema): unknown {
  return isRecord(value) ? fitInner(value, root) : value
}

function leadsToSchema(reference: unknown, root: Schema): boolean {
  return typeof reference === 'string' && resolveReference(reference, root) !== undefined
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
