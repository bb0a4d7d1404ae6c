import { isRecord } from '@slipway/shared/json'

type Schema = Record<string, unknown>

const kept = ['type', 'description', 'properties', 'required', 'items', 'enum', 'nullable']
const types = ['string', 'number', 'integer', 'boolean', 'array', 'object']
const maxDepth = 12

/**
 * A tool's schema in what every provider takes: types, properties and enums of texts. References are resolved,
 * and of several forms the first one stays; the call is checked against the whole schema.
 */
export function reduceSchema(schema: Schema): Schema {
  const reduced = reduce(schema, schema, 0)
  return { ...reduced, type: 'object', properties: reduced.properties ?? {} }
}

function reduce(given: Schema, root: Schema, depth: number): Schema {
  const schema = firstForm(resolve(given, root), root)
  if (depth > maxDepth) return { type: 'string' }
  const type = [schema.type].flat().find((one) => types.includes(String(one)))
  const inner = (value: unknown) => (isRecord(value) ? reduce(value, root, depth + 1) : { type: 'string' })
  const reduced: Schema = {}
  for (const name of kept) {
    const value = schema[name]
    if (value === undefined) continue
    if (name === 'type') reduced.type = type ?? 'string'
    else if (name === 'properties' && isRecord(value))
      reduced.properties = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, inner(one)]))
    else if (name === 'items') reduced.items = inner([value].flat()[0])
    else if (name === 'enum') Object.assign(reduced, textEnum(value))
    else reduced[name] = value
  }
  if (reduced.type === undefined) reduced.type = reduced.properties === undefined ? 'string' : 'object'
  if (reduced.type === 'array') reduced.items ??= { type: 'string' }
  if (Array.isArray(reduced.required)) {
    const names = Object.keys(isRecord(reduced.properties) ? reduced.properties : {})
    reduced.required = reduced.required.filter((name) => names.includes(String(name)))
  }
  return reduced
}

function textEnum(values: unknown): Schema {
  const isText = Array.isArray(values) && values.every((one) => typeof one === 'string' && one !== '')
  return isText ? { enum: values } : {}
}

function resolve(schema: Schema, root: Schema): Schema {
  const { $ref: reference } = schema
  if (typeof reference !== 'string') return schema
  let found: unknown = root
  for (const name of reference.replace(/^#\/?/, '').split('/'))
    found = isRecord(found) ? found[name] : undefined
  return isRecord(found) ? { ...found, $ref: undefined } : { description: schema.description }
}

function firstForm(schema: Schema, root: Schema): Schema {
  const forms = [schema.anyOf, schema.oneOf, schema.allOf].find(Array.isArray)
  const found = forms?.find((one: unknown) => isRecord(one) && one.type !== 'null')
  if (!isRecord(found)) return schema
  const { required, ...form } = resolve(found, root)
  return { ...form, ...(schema.properties === undefined && { required }), ...schema }
}
