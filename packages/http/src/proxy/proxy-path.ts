import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Problem } from '@slipway/protocol'
import { decodePercent } from '@slipway/shared/url'
import { isSameOrigin } from '../auth/guard.ts'
import { withoutConsoleSession } from '../console/console-credential.ts'
import type { Reply } from '../core/handler.ts'
import { getHeader } from '../core/incoming-request.ts'
import { unixSocketPath } from '../core/unix-socket.ts'

/** The request for which a proxy route chooses its target. */
export interface ProxyRequest {
  /** The parameters of the prefix, decoded; none contains a slash or is a dot segment. */
  readonly params: Readonly<Record<string, string>>
  header(name: string): string | undefined
  /** The request opens a WebSocket. */
  readonly isUpgrade: boolean
  readonly method: string
  /** The raw path after the prefix, with its slash and without the query. */
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
}

export interface ProxyTarget {
  /** `http://127.0.0.1:8000`, or `http+unix://<percent-encoded path>`; its path is a prefix. */
  readonly url: string
  /** Replace the client's headers of these names; undefined removes one. */
  readonly headers?: Readonly<Record<string, string | undefined>>
  /** Replaces the client's query: with its question mark, or empty. */
  readonly query?: string
  /** Of a bridge: ends its WebSockets with 1000. */
  readonly signal?: AbortSignal
}

/** Forwards everything below a path to another server: requests of all methods, and WebSockets. */
export interface ProxyRoute {
  /**
   * What the targets serve is not trusted: their pages get their own opaque origin (CSP sandbox), no
   * cookies and no service worker, so that they cannot act as pages of this server.
   */
  readonly isUntrusted?: boolean
  /**
   * The targets are programs of pages of another origin. `target` alone decides who may call: hosts, origins
   * and keys are not looked at. Redirects are refused, cookies of targets do not pass, and WebSockets are
   * accepted here, so that they can be closed. Every refusal of a WebSocket is 403.
   */
  readonly isBridge?: boolean
  /**
   * With braces: `/sandboxes/{sandbox_id}/{name}`. A literal segment precedes routes with braces in the same
   * place. Empty: every path that no route of the table has.
   */
  readonly prefix: string
  /** Answers a request itself; undefined to forward it. Called after host and origin were checked. */
  answer?(request: ProxyRequest): Reply | undefined
  /** Returns the target of a request; throws a Problem to refuse it. No key has been checked. */
  target(request: ProxyRequest): Promise<ProxyTarget>
}

/** An address that a proxy route matches. */
export interface ProxyMatch {
  readonly route: ProxyRoute
  readonly params: Readonly<Record<string, string>>
  /** The raw matched prefix: `/sandboxes/a/agent`. */
  readonly prefix: string
  readonly path: string
  /** With its question mark, or empty. */
  readonly query: string
}

/**
 * Matches an address with a proxy route; undefined when it is not below the prefix. Throws a Problem for path
 * traversal: `..`, also percent-encoded and between encoded slashes, however the target decodes it.
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
  if (route.isBridge && hasDotSegment(path)) throw new Problem('bad_request', 'Invalid backend path')
  if (decodeComponent(path).split(/[/\\]/).includes('..')) throw invalidAddress()
  const prefix = segments.slice(0, pattern.length).join('/')
  return { route, params, prefix, path, query: at < 0 ? '' : url.slice(at) }
}

/** Whether a path has `.`, `..` or a backslash, however often its target decodes it. */
function hasDotSegment(path: string): boolean {
  let text = path
  for (;;) {
    if (text.includes('\\') || text.split('/').some((segment) => /^\.{1,2}$/.test(segment))) return true
    const decoded = decodePercent(text)
    if (decoded === undefined || decoded === text) return false
    text = decoded
  }
}

function decodeComponent(text: string): string {
  const decoded = decodePercent(text)
  if (decoded === undefined) throw invalidAddress()
  return decoded
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

/** The request that the target gets. */
export interface ForwardedRequest {
  readonly target: TargetAddress
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly isUntrusted: boolean
  readonly isBridge: boolean
  readonly signal: AbortSignal | undefined
}

export function createProxyRequest(
  raw: IncomingMessage,
  { params, path, query }: ProxyMatch,
  isUpgrade: boolean,
): ProxyRequest {
  const header = (name: string) => getHeader(raw, name)
  return { params, header, isUpgrade, method: raw.method ?? '', path, query }
}

/** Builds the request for the target of a route. `base` is the base path before the prefix. */
export async function buildForwardedRequest(
  raw: IncomingMessage,
  match: ProxyMatch,
  { base, isUpgrade }: { readonly base: string; readonly isUpgrade: boolean },
): Promise<ForwardedRequest> {
  const { route, prefix, path, query } = match
  const { isUntrusted = false, isBridge = false } = route
  if (isUntrusted && getHeader(raw, 'service-worker') !== undefined)
    throw new Problem('forbidden', 'Service workers are not allowed here')
  const request = createProxyRequest(raw, match, isUpgrade)
  const { url, headers: overrides = {}, signal, ...replaced } = await route.target(request)
  const address = new URL(url)
  const target = parseTarget(address)
  const headers: IncomingHttpHeaders = {
    ...withoutConsoleSession(endToEndHeaders(raw.headers)),
    ...forwardedHeaders(raw, base + prefix),
    ...(isUpgrade ? { connection: 'Upgrade', upgrade: 'websocket' } : {}),
    host: target.socketPath === undefined ? address.host : 'localhost',
    // The target has another name, and would take a page of this server for a foreign one.
    ...(isSameOrigin(raw.headers) ? { origin: undefined } : {}),
  }
  for (const [name, value] of Object.entries(overrides)) headers[name.toLowerCase()] = value
  for (const [name, value] of Object.entries(headers)) if (value === undefined) delete headers[name]
  const fullPath = address.pathname.replace(/\/+$/, '') + path + (replaced.query ?? query)
  return { target, path: fullPath, headers, isUntrusted, isBridge, signal }
}

function parseTarget(url: URL): TargetAddress {
  if (url.protocol === 'http+unix:')
    return { protocol: 'http:', host: 'localhost', port: 80, socketPath: unixSocketPath(url) }
  const { protocol, hostname } = url
  if (!/^https?:$/.test(protocol))
    throw new Error('The target of a relay is not one of http, https or http+unix')
  return { protocol, host: hostname, hostname, port: Number(url.port) || (protocol === 'http:' ? 80 : 443) }
}

/**
 * The origin of the request. Values of a proxy in front of this server are passed on unchecked, so nothing
 * may trust them.
 */
function forwardedHeaders({ headers, socket }: IncomingMessage, prefix: string): IncomingHttpHeaders {
  const one = (name: string) => String(headers[name] ?? '')
  return {
    'x-forwarded-for': [one('x-forwarded-for'), socket.remoteAddress].filter(Boolean).join(', ') || undefined,
    'x-forwarded-proto': one('x-forwarded-proto') || 'http',
    'x-forwarded-host': one('x-forwarded-host') || one('host'),
    'x-forwarded-prefix': one('x-forwarded-prefix') + prefix,
  }
}

/**
 * Hop-by-hop headers (RFC 9110 section 7.6.1). The framing of the body stays, because the body is forwarded
 * with it.
 */
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

/** Whether a header concerns one connection only. */
export function isHopByHop(name: string, connection: string | undefined): boolean {
  const lower = name.toLowerCase()
  if (neverHopByHop.includes(lower)) return false
  return hopByHopHeaders.includes(lower) || connectionHeaderNames(connection).includes(lower)
}

function connectionHeaderNames(connection = ''): string[] {
  return connection.split(',').map((name) => name.trim().toLowerCase())
}

/** Drops `expect` too: it has been answered, and the client is sending. */
function endToEndHeaders(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const forwardable = Object.entries(headers).filter(
    ([name]) => name !== 'expect' && !isHopByHop(name, headers.connection),
  )
  return Object.fromEntries(forwardable)
}
