import type { IncomingMessage } from 'node:http'
import { type Fault, faultsOf, Problem, type Route } from '@slipway/protocol'
import { parseJson } from './body.ts'
import { Newest } from './lru-map.ts'

type Schema = NonNullable<Route['body']>
type ObjectSchema = NonNullable<Route['query']>

interface Address {
  readonly params: unknown
  readonly query: unknown
}

/**
 * What the schemas of a route make of a request. Parsed addresses of GET are kept for the next time (some
 * thousand of the newest, frozen), because a page that is ready must not wait for the parsing of its own address.
 */
export class Inputs {
  readonly #known = new Newest<Address>()

  /** Throws a Problem: `invalid` with the faults of all parts, or `unsupported_media_type`. */
  read(
    route: Route,
    raw: IncomingMessage,
    params: unknown,
    bytes: Buffer,
  ): Address & { readonly body?: unknown } {
    const { body } = route
    return body === undefined ? this.#address(route, raw, params) : readAll(route, body, raw, params, bytes)
  }

  #address(route: Route, raw: IncomingMessage, params: unknown): Address {
    const url = raw.url ?? ''
    if (route.method !== 'GET') return readAddress(route, url, params)
    const known = this.#known.get(url)
    if (known !== undefined) return known
    const address = deepFreeze(readAddress(route, url, params))
    this.#known.set(url, address)
    return address
  }
}

/** All three parts of a request with a JSON body; the faults are those of all three. */
export function readAll(
  route: Route,
  schema: Schema,
  raw: IncomingMessage,
  params: unknown,
  bytes: Buffer,
): Address & { readonly body: unknown } {
  const faults: Fault[] = []
  const address = parseAddress(route, raw.url ?? '', params, faults)
  let body: unknown
  try {
    body = check(schema, parseJson(bytes, raw), 'body', faults)
  } catch (error) {
    if (!(error instanceof Problem) || error.faults === undefined) throw error
    faults.push(...error.faults)
  }
  refuse(faults)
  return { ...address, body }
}

function readAddress(route: Route, url: string, params: unknown): Address {
  const faults: Fault[] = []
  const address = parseAddress(route, url, params, faults)
  refuse(faults)
  return address
}

function parseAddress(route: Route, url: string, params: unknown, faults: Fault[]): Address {
  const at = url.indexOf('?')
  const search = at < 0 ? '' : url.slice(at + 1)
  return {
    params: route.params && check(route.params, params, 'path', faults),
    query: route.query && check(route.query, pick(route.query, new URLSearchParams(search)), 'query', faults),
  }
}

function check(schema: Schema, input: unknown, place: string, faults: Fault[]): unknown {
  const result = schema.safeParse(input)
  if (result.success) return result.data
  faults.push(...faultsOf(result.error, [place], input))
  return undefined
}

function refuse(faults: readonly Fault[]): void {
  if (faults.length > 0) throw new Problem('invalid', 'The request is not valid', faults)
}

/** The parameters that the schema names: all values where it wants an array, of the others the last one. */
function pick(schema: ObjectSchema, search: URLSearchParams): Record<string, string | string[]> {
  const input: Record<string, string | string[]> = {}
  for (const [name, member] of Object.entries(schema.shape)) {
    const values = search.getAll(name)
    const last = values.at(-1)
    if (last !== undefined) input[name] = wantsArray(member) ? values : last
  }
  return input
}

/** Looks through what may be wrapped around an array: optional, default, transforms. */
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
