import { isRecord } from '@slipway/shared/json'

/** Properties of the forms (`anyOf` and the like) at the top of a schema, in bounded time for any schema. */

export type Schema = Readonly<Record<string, unknown>>

export const topForms = ['allOf', 'anyOf', 'oneOf'] as const

/** Nested objects of a schema. */
const maxNesting = 100
/** Forms in forms. */
const maxDepth = 8
/** Forms that are merged, references followed. A hundred properties count as one form more. */
const maxForms = 1_000

export interface MergeBudget {
  left: number
}

/** A schema with the properties of its forms; only what all of them require stays required. */
export function mergeForms(root: Schema, budget: MergeBudget = { left: maxForms }): Schema {
  const merge = (schema: Schema, path: readonly Schema[]): Schema => {
    if (path.length > maxDepth || path.includes(schema) || budget.left <= 0) return {}
    budget.left -= 1 + (sizeOf(schema.properties) + sizeOf(schema.required)) / 100
    const inner = [...path, schema]
    const [allOf = [], ...unions] = topForms.map((kind) =>
      (Array.isArray(schema[kind]) ? schema[kind] : []).filter(isRecord).map((form) => merge(form, inner)),
    )
    const target = typeof schema.$ref === 'string' ? resolveReference(schema.$ref, root) : undefined
    const all = target === undefined ? allOf : [merge(target, inner), ...allOf]
    const properties = Object.fromEntries([
      ...all.flatMap(propertiesOf),
      ...unions.flatMap(unionOfProperties),
      ...propertiesOf(schema),
    ])
    const { required: _, ...rest } = schema
    const required = [schema, ...all].map((form) => form.required).filter(Array.isArray)
    return { ...rest, properties, ...(required.length > 0 && { required: required.flat() }) }
  }
  return merge(root, [])
}

function sizeOf(value: unknown): number {
  return isRecord(value) ? Object.keys(value).length : Array.isArray(value) ? value.length : 0
}

function propertiesOf({ properties }: Schema): [string, unknown][] {
  return isRecord(properties) ? Object.entries(properties) : []
}

/** What any of the forms allows for each name. */
function unionOfProperties(forms: readonly Schema[]): [string, unknown][] {
  const byName = new Map<string, Set<unknown>>()
  for (const [name, schema] of forms.flatMap(propertiesOf))
    byName.set(name, (byName.get(name) ?? new Set()).add(schema))
  return [...byName].map(([name, schemas]) => [name, unionOf([...schemas])])
}

function unionOf(schemas: readonly unknown[]): unknown {
  if (schemas.length === 1) return schemas[0]
  const distinct = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()]
  if (distinct.length === 1) return distinct[0]
  const lists = distinct.map(valuesOf)
  const values = [...new Set(lists.flat())]
  const [type = '', ...others] = new Set(values.map((value) => typeof value))
  const isEnum = ['string', 'number'].includes(type) && others.length === 0
  return isEnum && lists.every(({ length }) => length > 0) ? { type, enum: values } : { anyOf: distinct }
}

/** The values that a schema lists; none: it lists none. */
function valuesOf(schema: unknown): readonly unknown[] {
  if (!isRecord(schema)) return []
  if (Object.hasOwn(schema, 'const')) return [schema.const]
  return Array.isArray(schema.enum) ? schema.enum : []
}

/** The schema to which a reference inside of `root` leads. */
export function resolveReference(reference: string, root: Schema): Schema | undefined {
  if (!reference.startsWith('#')) return undefined
  let found: unknown = root
  for (const part of reference.slice(1).split('/').filter(Boolean)) {
    const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
    found = isRecord(found) && Object.hasOwn(found, name) ? found[name] : undefined
  }
  return isRecord(found) ? found : undefined
}

/** The same with `{}` for each object that more than a hundred others enclose. */
export function limitDepth(root: Schema): Schema {
  const limit = (value: unknown, depth: number): unknown => {
    if (Array.isArray(value))
      return depth > 2 * maxNesting ? [] : value.map((one: unknown) => limit(one, depth + 1))
    if (!isRecord(value)) return value
    if (depth > maxNesting) return {}
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, limit(one, depth + 1)]))
  }
  return limit(root, 0) as Schema // a record stays one
}
