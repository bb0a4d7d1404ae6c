import { isRecord, parseJson } from '@slipway/shared/json'
import { parseLiteral } from './repair-literal.ts'

type Json = Readonly<Record<string, unknown>>

/**
 * The value of a JSON text, or of one that is nearly JSON: raw control characters in strings, and what
 * `parseLiteral` reads. Undefined when the text is not JSON even then. `isValidJson`: nothing was repaired.
 */
export function repairJson(
  text: string,
): { readonly value: unknown; readonly isValidJson: boolean } | undefined {
  const value = parseJson(text)
  if (value !== undefined) return { value, isValidJson: true }
  const repaired = parseJson(escapeControlCharacters(text)) ?? parseLiteral(text)
  return repaired === undefined ? undefined : { value: repaired, isValidJson: false }
}

/** Scans strings from the left: an unescaped quote begins or ends one. */
function escapeControlCharacters(text: string): string {
  const parts: string[] = []
  let isString = false
  let copiedTo = 0
  for (let at = 0; at < text.length; at++) {
    const isEscape = isString && text[at] === '\\'
    const end = isEscape ? at + 1 : at
    const code = text.charCodeAt(end)
    if (isString && code < 0x20) {
      // A backslash before a control character is not a JSON escape: it is dropped.
      parts.push(text.slice(copiedTo, at), `\\u${code.toString(16).padStart(4, '0')}`)
      copiedTo = end + 1
    } else if (text[at] === '"') isString = !isString
    at = end
  }
  return parts.join('') + text.slice(copiedTo)
}

/**
 * Converts strings to the types that a JSON Schema requires (`"true"`, `"12"`, JSON in a string) and drops
 * null for optional members. Other values stay as they are.
 */
export function repairTypes(args: Json, schema: Json): Json {
  const properties = schemaProperties(schema)
  const required = Array.isArray(schema.required) ? schema.required : []
  return Object.fromEntries(
    Object.entries(args).flatMap(([name, value]) => {
      const property = Object.hasOwn(properties, name) ? properties[name] : undefined
      if (!isRecord(property)) return [[name, value]]
      const types = schemaTypes(property)
      const isAbsent = value === null && types.size > 0 && !types.has('null') && !required.includes(name)
      return isAbsent ? [] : [[name, repairValue(value, property)]]
    }),
  )
}

/** The properties of a schema of type object. */
export function schemaProperties(schema: Json): Json {
  return isRecord(schema.properties) ? schema.properties : {}
}

function repairValue(value: unknown, schema: Json): unknown {
  const types = schemaTypes(schema)
  const typed =
    typeof value === 'string' && types.size > 0 && !types.has('string') ? decodeString(value, types) : value
  if (Array.isArray(typed) && isRecord(schema.items)) {
    const { items } = schema
    return typed.map((item) => repairValue(item, items))
  }
  return isRecord(typed) && isRecord(schema.properties) ? repairTypes(typed, schema) : typed
}

function decodeString(text: string, types: ReadonlySet<string>): unknown {
  const word = text.trim()
  const repaired = repairJson(/^(true|false|null)$/i.test(word) ? word.toLowerCase() : word)
  return repaired && valueTypes(repaired.value).some((type) => types.has(type)) ? repaired.value : text
}

function valueTypes(value: unknown): readonly string[] {
  if (Number.isInteger(value)) return ['integer', 'number']
  return [value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value]
}

/** The types that a schema allows; empty when it allows any. */
function schemaTypes(schema: Json): ReadonlySet<string> {
  const { type, anyOf, oneOf } = schema
  if (typeof type === 'string') return new Set([type])
  if (Array.isArray(type)) return new Set(type)
  const branches = [anyOf, oneOf].find(Array.isArray) ?? []
  const branchTypes = branches.map((branch) => (isRecord(branch) ? schemaTypes(branch) : new Set<string>()))
  // A branch without types allows any.
  return branchTypes.some((types) => types.size === 0)
    ? new Set()
    : new Set(branchTypes.flatMap((types) => [...types]))
}
