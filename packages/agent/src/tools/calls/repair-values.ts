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
  const escaped = escapeControlCharacters(text)
  const closed = matchBrackets(escaped)
  const repaired =
    parseJson(escaped) ?? parseLiteral(text) ?? (closed === undefined ? undefined : parseLiteral(closed))
  return repaired === undefined ? undefined : { value: repaired, isValidJson: false }
}

/** With the brackets that are missing at the end, or without those too many. Undefined: a string is open. */
function matchBrackets(text: string): string | undefined {
  const open: string[] = []
  let isString = false
  for (let at = 0; at < text.length; at++) {
    const char = text.charAt(at)
    if (isString) {
      if (char === '\\') at++
      else if (char === '"') isString = false
    } else if (char === '"') isString = true
    else if (char === '{' || char === '[') open.push(char === '{' ? '}' : ']')
    else if (char === '}' || char === ']') {
      // Behind the end of the value only brackets may follow.
      if (open.length === 0) return /^[\s}\]]*$/.test(text.slice(at)) ? text.slice(0, at) : undefined
      if (open.pop() !== char) return undefined
    }
  }
  // A number or word at the end may be cut itself.
  const isWhole = open.length === 0 || /["}\]]\s*$/.test(text)
  return isString || !isWhole ? undefined : text + open.reverse().join('')
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

const unitSeconds: Readonly<Record<string, number>> = { ms: 0.001, s: 1, m: 60, h: 3_600 }

/** `30s`, `2 minutes`, `500ms` in seconds. */
function durationSeconds(text: string): number | undefined {
  const [, count, unit = ''] = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|sec|min|hour|second|minute)s?$/i.exec(text) ?? []
  const seconds = unitSeconds[unit.toLowerCase() === 'ms' ? 'ms' : unit.charAt(0).toLowerCase()]
  return count === undefined || seconds === undefined ? undefined : Number(count) * seconds
}

function decodeString(text: string, types: ReadonlySet<string>): unknown {
  const word = text.trim()
  const seconds = types.has('number') ? durationSeconds(word) : undefined
  if (seconds !== undefined) return seconds
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
