import type { IncomingMessage } from 'node:http'
import { Problem, type Route, type ValidationIssue, validationIssues } from '@slipway/protocol'
import { parseJson } from './body.ts'

type Schema = NonNullable<Route['body']>
type ObjectSchema = NonNullable<Route['query']>

interface ParsedAddress {
  readonly params: unknown
  readonly query: unknown
}

/** The routed address of a request. */
export interface RequestAddress {
  readonly params: unknown
  /** Set by the first GET. */
  parsed?: ParsedAddress
}

/**
 * Validates a request against the schemas of its route. Throws a Problem: `invalid` with the issues of all
 * parts, or `unsupported_media_type`. The parsed address of a GET is stored with the address (frozen),
 * because a page that is ready must not wait for the parsing of its own address.
 */
export function parseInput(
  route: Route,
  raw: IncomingMessage,
  address: RequestAddress,
  bytes: Buffer,
): ParsedAddress & { readonly body?: unknown } {
  const isRemembered = route.method === 'GET' && route.body === undefined
  if (isRemembered && address.parsed !== undefined) return address.parsed
  const issues: ValidationIssue[] = []
  const parsed = parseAddress(route, raw.url ?? '', address.params, issues)
  const body = route.body && parseBody(route.body, raw, bytes, issues)
  if (issues.length > 0) throw new Problem('invalid', 'The request is not valid', issues)
  if (!isRemembered) return { ...parsed, body }
  address.parsed = deepFreeze(parsed)
  return parsed
}

function parseBody(schema: Schema, raw: IncomingMessage, bytes: Buffer, issues: ValidationIssue[]): unknown {
  try {
    return validate(schema, parseJson(bytes, raw), 'body', issues)
  } catch (error) {
    if (!(error instanceof Problem) || error.issues === undefined) throw error
    issues.push(...error.issues)
    return undefined
  }
}

function parseAddress(route: Route, url: string, params: unknown, issues: ValidationIssue[]): ParsedAddress {
  const at = url.indexOf('?')
  const search = at < 0 ? '' : url.slice(at + 1)
  return {
    params: route.params && validate(route.params, params, 'path', issues),
    query:
      route.query &&
      validate(route.query, pickParameters(route.query, new URLSearchParams(search)), 'query', issues),
  }
}

function validate(schema: Schema, input: unknown, location: string, issues: ValidationIssue[]): unknown {
  const result = schema.safeParse(input)
  if (result.success) return result.data
  issues.push(...validationIssues(result.error, [location], input))
  return undefined
}

/** The parameters that the schema names: all values for an array, else the last one. */
function pickParameters(schema: ObjectSchema, search: URLSearchParams): Record<string, string | string[]> {
  const input: Record<string, string | string[]> = {}
  for (const [name, member] of Object.entries(schema.shape)) {
    const values = search.getAll(name)
    const last = values.at(-1)
    if (last !== undefined) input[name] = wantsArray(member) ? values : last
  }
  return input
}

/** Sees an array through its wrappers: optional, default, transforms. */
function wantsArray(schema: unknown): boolean {
  if (typeof schema !== 'object' || schema === null || !('def' in schema)) return false
  const { def } = schema
  if (typeof def !== 'object' || def === null) return false
  if ('type' in def && def.type === 'array') return true
  if ('options' in def && Array.isArray(def.options)) return def.options.some(wantsArray)
  return ('innerType' in def && wantsArray(def.innerType)) || ('in' in def && wantsArray(def.in))
}

function deepFreeze<V>(value: V): V {
  if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return value
  Object.values(value).forEach(deepFreeze)
  return Object.freeze(value)
}
