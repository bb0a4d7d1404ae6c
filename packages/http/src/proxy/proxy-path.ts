import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Problem } from '@slipway/protocol'
import { getHeader } from '../core/incoming-request.ts'
import { unixSocketPath } from '../core/unix-socket.ts'

/** What a relay is asked before anything is sent on. */
export interface ProxyRequest {
  /** The values of the prefix, decoded; none holds a slash or is a dot segment. */
  readonly params: Readonly<Record<string, string>>
  header(name: string): string | undefined
  /** A WebSocket is asked for. */
  readonly isUpgrade: boolean
  readonly method: string
  /** What follows the prefix, as it came, with its slash and without the query. */
  readonly path: string
}

export interface ProxyTarget {
  /** `http://127.0.0.1:8000`, or `http+unix://<percent-encoded path>`; a path in it is kept as a prefix. */
  readonly url: string
  /** Sent instead of the client's headers of these names; with undefined the client's is left out. */
  readonly headers?: Readonly<Record<string, string | undefined>>
}

/** Everything below a path is another server's: requests of all methods, and WebSockets. */
export interface ProxyRoute {
  /** With braces: `/sandboxes/{sandbox_id}/{name}`. It goes before routes with braces in the same place. */
  readonly prefix: string
  /** Where to send this request; throws a Problem to refuse it. No key has been asked for. */
  target(request: ProxyRequest): Promise<ProxyTarget>
}

/** One request and its way: where it came in, and what follows. */
export interface ProxyMatch {
  readonly route: ProxyRoute
  readonly params: Readonly<Record<string, string>>
  /** What the prefix matched, as it came: `/sandboxes/a/agent`. */
  readonly prefix: string
  readonly path: string
  /** With its question mark; empty when there is none. */
  readonly query: string
}

/**
 * The way of an address through a relay; undefined when it is not below the prefix. Throws a Problem when a value or a step
 * would lead out of it: `..`, also percent-encoded and between encoded slashes, however the target reads it.
 */
export function matchProxyPath(route: ProxyRoute, url: string): ProxyMatch | undefined {
  const at = url.indexOf('?')
  const segments = (at < 0 ? url : url.slice(0, at)).split('/')
  const pattern = route.prefix.split('/')
  if (segments.length < pattern.length) return undefined
  const params: Record<string, string> = {}
  for (const [index, part] of pattern.entries()) {
    const value = segments[index] ?? ''
    const name = /^\{(\w+)\}$/.exec(part)?.[1]
    if (name === undefined ? part !== value : value === '') return undefined
    if (name !== undefined) params[name] = decodeComponent(value)
  }
  if (Object.values(params).some((value) => /[/\\]|^\.{1,2}$/.test(value))) {
    throw new Problem('not_found', 'Not Found')
  }
  const path = `/${segments.slice(pattern.length).join('/')}`
  if (decodeComponent(path).split(/[/\\]/).includes('..')) throw invalidAddress()
  const prefix = segments.slice(0, pattern.length).join('/')
  return { route, params, prefix, path, query: at < 0 ? '' : url.slice(at) }
}

function decodeComponent(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidAddress()
  }
}

function invalidAddress(): Problem {
  return new Problem('bad_request', 'The address is not valid')
}

/** Where to connect. */
interface TargetAddress {
  readonly protocol: string
  readonly host: string
  readonly hostname?: string
  readonly port: number
  readonly socketPath?: string
}

/** What is sent on. */
export interface ForwardedRequest {
  readonly target: TargetAddress
  readonly path: string
  readonly headers: IncomingHttpHeaders
}

/** Asks the relay, and makes of a request what the target gets. `base` is what stood before the prefix. */
export async function buildForwardedRequest(
  raw: IncomingMessage,
  match: ProxyMatch,
  { base, isUpgrade }: { readonly base: string; readonly isUpgrade: boolean },
): Promise<ForwardedRequest> {
  const { route, params, prefix, path, query } = match
  const header = (name: string) => getHeader(raw, name)
  const request = { params, header, isUpgrade, method: raw.method ?? '', path }
  const { url, headers: overrides = {} } = await route.target(request)
  const address = new URL(url)
  const target = parseTarget(address)
  const headers: IncomingHttpHeaders = {
    ...endToEndHeaders(raw.headers),
    ...forwardedHeaders(raw, base + prefix),
    ...(isUpgrade ? { connection: 'Upgrade', upgrade: 'websocket' } : {}),
    host: target.socketPath === undefined ? address.host : 'localhost',
  }
  for (const [name, value] of Object.entries(overrides)) headers[name.toLowerCase()] = value
  for (const [name, value] of Object.entries(headers)) if (value === undefined) delete headers[name]
  return { target, path: address.pathname.replace(/\/+$/, '') + path + query, headers }
}

function parseTarget(url: URL): TargetAddress {
  if (url.protocol === 'http+unix:')
    return { protocol: 'http:', host: 'localhost', port: 80, socketPath: unixSocketPath(url) }
  const { protocol, hostname } = url
  if (!/^https?:$/.test(protocol))
    throw new Error('The target of a relay is not one of http, https or http+unix')
  return { protocol, host: hostname, hostname, port: Number(url.port) || (protocol === 'http:' ? 80 : 443) }
}

/** Where the request came from. What a proxy in front of this server said is kept, so nothing may be decided by it. */
function forwardedHeaders({ headers, socket }: IncomingMessage, prefix: string): IncomingHttpHeaders {
  const one = (name: string) => String(headers[name] ?? '')
  return {
    'x-forwarded-for': [one('x-forwarded-for'), socket.remoteAddress].filter(Boolean).join(', ') || undefined,
    'x-forwarded-proto': one('x-forwarded-proto') || 'http',
    'x-forwarded-host': one('x-forwarded-host') || one('host'),
    'x-forwarded-prefix': one('x-forwarded-prefix') + prefix,
  }
}

/** Headers that are about one connection (RFC 9110 section 7.6.1); the framing of the body is kept, as it is sent on in the same way. */
const hopByHopHeaders = [
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'te',
  'trailer',
  'upgrade',
]
const neverHopByHop = ['host', 'content-length', 'transfer-encoding']

/** Whether a header is about one connection, and of no concern to the other end. */
export function isHopByHop(name: string, connection: string | undefined): boolean {
  const lower = name.toLowerCase()
  if (neverHopByHop.includes(lower)) return false
  return hopByHopHeaders.includes(lower) || connectionHeaderNames(connection).includes(lower)
}

function connectionHeaderNames(connection = ''): string[] {
  return connection.split(',').map((name) => name.trim().toLowerCase())
}

/** `expect` is left out too: it has been answered, and the client is sending. */
function endToEndHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const forwardable = Object.entries(headers).filter(
    ([name]) => name !== 'expect' && !isHopByHop(name, headers.connection),
  )
  return Object.fromEntries(forwardable)
}
