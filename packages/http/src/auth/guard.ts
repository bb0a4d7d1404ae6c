import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Problem, type Route } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import { isBrowserLoopback, isLoopback } from '@slipway/shared/url'
import { assertOpens, type ScopedKey, scopedKeyPrefix } from './scoped-key.ts'

export interface GuardOptions {
  /**
   * Session keys; without any the server is open to this machine. A function returns the current keys: the
   * same array while they are unchanged, undefined while they are unknown (then no key is valid).
   */
  readonly keys?: readonly Secret[] | (() => readonly Secret[] | undefined)
  /** Whether a key is one of the server's own sessions, besides `keys`. */
  isSessionKey?(key: string): boolean
  /** The key with scopes that this is; undefined when it is none, or has ended. */
  findScopedKey?(key: string): Promise<ScopedKey | undefined>
  /**
   * Called first for every request and upgrade except preflights, with the path (without base path and
   * query). Throws a Problem to refuse, `unavailable` while the server is not ready for this path.
   */
  checkReady?(path: string, request: Pick<IncomingMessage, 'method' | 'headers'>): void
  /** Host names, with or without port, that requests may use besides loopback ones. */
  readonly allowedHosts?: readonly string[]
  /** Whether a Host header names the server at another address, as that of a proxy before it. */
  isOwnHost?(host: string): boolean
  /** Whether pages of a host are those of other programs: nothing of the server's own pages counts there. */
  isForeignHost?(host: string): boolean
  /**
   * Origins (`https://example.org`) whose pages may call besides those of the server itself; a function
   * returns the current ones, as for keys. A pattern has to match the whole origin, in lower case.
   */
  readonly allowedOrigins?: readonly (string | RegExp)[] | (() => readonly (string | RegExp)[])
}

/** How long an open socket or stream outlives its key at most. */
export const keyCheckMs = 5_000

/** Authorizes instead of a key, on routes with `pages: 'pass'`. */
export interface PageCredential {
  /** It was in the address, so every page that has the address may use it. */
  readonly isInAddress: boolean
  /** The origin of the page that it was issued to; pages of other origins may not read the replies. */
  readonly origin?: string | undefined
}

/** The credential of a request to a route with `pages`; `authorize` throws the Problem. */
export interface PageRequest {
  readonly credential: PageCredential | Problem | undefined
}

/** What a page may send; part of the reply to OPTIONS. */
export const preflightHeaders = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'x-session-api-key, content-type, x-expose-secrets, x-slipway-wire, last-event-id, idempotency-key, authorization, x-access-token, x-org-id, x-init-api-key, x-openhands-serverconversation-id, x-openhands-client, x-openhands-client-version, x-openhands-telemetry-distinct-id, traceparent, tracestate',
  'access-control-max-age': '600',
}

const varyOnly = { vary: 'Origin' }
const noKeys: readonly Secret[] = []
const missingHost = 'The Host header is missing'

/** The address of a request without its query. */
function requestPath({ url = '' }: IncomingMessage): string {
  const at = url.indexOf('?')
  return at < 0 ? url : url.slice(0, at)
}

/** A CORS preflight carries no key, and refusing it would hide the refusal of the request itself. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

/** Authorizes requests: host, origin and key. */
export class Guard {
  readonly #options: GuardOptions
  readonly #keys: () => readonly Secret[] | undefined
  /** `identify` authenticates callers, not keys alone. */
  readonly #identifiesCallers: boolean
  readonly #digests = memoizeLast((keys: readonly Secret[]) => keys.map((key) => digest(key.reveal())))
  readonly #hosts: ReadonlySet<string>
  readonly #origins: () => readonly (string | RegExp)[]
  readonly #normalizedOrigins = memoizeLast((origins: readonly (string | RegExp)[]) => ({
    names: new Set(
      origins.flatMap((origin) =>
        typeof origin === 'string' ? [origin.toLowerCase().replace(/\/$/, '')] : [],
      ),
    ),
    patterns: origins.flatMap((origin) =>
      typeof origin === 'string' ? [] : [new RegExp(`^(?:${origin.source})$`)],
    ),
  }))
  /** The last accepted host; most requests use the same one. */
  #lastHost: string | undefined

  constructor(options: GuardOptions, identifiesCallers = false) {
    const { keys = noKeys, allowedHosts = [], allowedOrigins = [] } = options
    this.#options = options
    this.#keys = typeof keys === 'function' ? keys : () => keys
    this.#identifiesCallers = identifiesCallers
    this.#hosts = new Set(allowedHosts.map((host) => host.toLowerCase()))
    this.#origins = typeof allowedOrigins === 'function' ? allowedOrigins : () => allowedOrigins
  }

  /** Whether callers need a key or another authentication. */
  get hasKeys(): boolean {
    return this.#identifiesCallers || this.#keys()?.length !== 0
  }

  /** Throws what the option `checkReady` throws. */
  checkReady(raw: IncomingMessage): void {
    if (this.#options.checkReady !== undefined && !isPreflight(raw))
      this.#options.checkReady(requestPath(raw), raw)
  }

  /**
   * Throws a Problem `forbidden` for a foreign host or page and `unauthorized` for a missing or wrong key.
   * With `allowBearer` the key may also come as `Authorization: Bearer`.
   */
  authorize(raw: IncomingMessage, isOpen: boolean, allowBearer = false, page?: PageRequest): void {
    if (!this.#admits(raw, isOpen, allowBearer, page)) throw unauthorizedProblem()
  }

  /**
   * Like `authorize`, for a route, which a key with scopes may open too: then a promise of that key. It
   * rejects with a Problem when the key does not open the route with these parameters of the path.
   */
  authorizeRoute(
    raw: IncomingMessage,
    route: Pick<Route, 'bearer' | 'scope' | 'params'>,
    request: { readonly isOpen: boolean; readonly params: unknown; readonly page: PageRequest | undefined },
  ): Promise<ScopedKey> | undefined {
    const allowBearer = route.bearer === true
    if (this.#admits(raw, request.isOpen, allowBearer, request.page)) return undefined
    return this.findScopedKey(offeredKey(raw.headers, allowBearer)).then((key) => {
      if (key === undefined) throw unauthorizedProblem()
      assertOpens(key, route, request.params)
      return key
    })
  }

  async findScopedKey(candidate: string | string[] | undefined): Promise<ScopedKey | undefined> {
    if (typeof candidate !== 'string' || !candidate.startsWith(scopedKeyPrefix)) return undefined
    return await this.#options.findScopedKey?.(candidate)
  }

  /** Whether a request needs no key, or has a valid one. Throws for a foreign host or page. */
  #admits(
    raw: IncomingMessage,
    isOpen: boolean,
    allowBearer: boolean,
    page: PageRequest | undefined,
  ): boolean {
    const { method, headers } = raw
    this.#checkHost(raw)
    if (page?.credential instanceof Problem) throw page.credential
    this.#checkPage(method, headers, page)
    if (page?.credential !== undefined) return true
    return isOpen || !this.hasKeys || this.isValidKey(offeredKey(headers, allowBearer))
  }

  /**
   * Whether the key of a request is still valid, of a session or with scopes: for streams that outlive it.
   * Undefined for a request without a key.
   */
  keyCheck({ headers }: IncomingMessage): (() => Promise<boolean>) | undefined {
    const key = offeredKey(headers, true)
    if (typeof key !== 'string' || !this.hasKeys) return undefined
    const isSession = this.isValidKey(key)
    if (!isSession && !key.startsWith(scopedKeyPrefix)) return undefined
    return async () => (isSession ? this.isValidKey(key) : (await this.findScopedKey(key)) !== undefined)
  }

  /** The valid key of a request, if it has one. */
  sessionKey({ headers }: IncomingMessage, allowBearer: boolean): string | undefined {
    const candidate = offeredKey(headers, allowBearer)
    return typeof candidate === 'string' && this.isValidKey(candidate) ? candidate : undefined
  }

  /** Like `authorize`, without the key, which an upgrade may present in other ways. */
  authorizeUpgrade(raw: IncomingMessage): void {
    const { headers } = raw
    this.#checkHost(raw)
    if (headers.origin !== undefined && !this.#isAllowedOrigin(headers.origin, headers.host))
      throw foreignPageProblem()
  }

  /** The CORS headers of every reply to this request, errors too. */
  corsHeaders(headers: IncomingHttpHeaders, page?: PageRequest): Readonly<Record<string, string>> {
    const { origin } = headers
    if (origin === undefined || !this.#canReadReply(headers, page)) return varyOnly
    return {
      vary: 'Origin',
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': 'etag, x-request-id, x-openhands-serverconversation-id',
    }
  }

  /**
   * Allowed origins, and on routes with `pages` other origins too, unless their credential was issued to a
   * page of another origin.
   */
  #canReadReply(headers: IncomingHttpHeaders, page: PageRequest | undefined): boolean {
    const { origin, host } = headers
    if (origin === undefined) return false
    if (this.#isAllowedOrigin(origin, host)) return true
    if (page === undefined) return false
    const isWeb = /^https?:\/\/./i.test(origin)
    const { credential } = page
    if (credential === undefined || credential instanceof Problem) return isWeb && this.hasKeys
    if (!credential.isInAddress) return credential.origin === origin.toLowerCase()
    // A sandboxed page has no separate origin. It runs what it embeds and cannot read it.
    return isWeb || (origin === 'null' && /^(script|style|font)$/.test(String(headers['sec-fetch-dest'])))
  }

  /** A key, compared with all in constant time, or the key of a session. */
  isValidKey(candidate: string | string[] | undefined): boolean {
    if (typeof candidate !== 'string') return false
    const candidateDigest = digest(candidate)
    const digests = this.#digests(this.#keys() ?? noKeys)
    const isKey = digests.reduce((isMatch, key) => timingSafeEqual(key, candidateDigest) || isMatch, false)
    return isKey || this.#options.isSessionKey?.(candidate) === true
  }

  /** Whether a page of this origin may call: one of the server that was requested, or one of the list. */
  #isAllowedOrigin(origin: string, host = ''): boolean {
    const lower = origin.toLowerCase()
    const { names, patterns } = this.#normalizedOrigins(this.#origins())
    if (names.has(lower) || patterns.some((pattern) => pattern.test(lower))) return true
    const name = /^https?:\/\/(.+)$/.exec(lower)?.[1]
    if (name === undefined) return false
    // On the same port another loopback name would make pages of programs those of the server.
    if (this.#options.isForeignHost?.(name)) return name === host.toLowerCase()
    return sameServerName(name) === sameServerName(host.toLowerCase())
  }

  /**
   * Stops DNS rebinding: a foreign name that resolves to this machine. A program that has the key may use any
   * name; a page may know the key, or have a cookie, and is held to names of the server on loopback.
   */
  #checkHost({ headers, httpVersion, socket }: IncomingMessage): void {
    const { host } = headers
    if (host === undefined && httpVersion !== '1.0') throw new Problem('bad_request', missingHost)
    if (this.hasKeys && this.#hosts.size === 0 && !(isOfBrowser(headers) && isLoopbackSocket(socket))) return
    if (host === undefined) throw new Problem('bad_request', missingHost)
    if (host === this.#lastHost) return
    const name = hostName(host)
    const isListed = this.#hosts.has(name) || this.#hosts.has(host.toLowerCase())
    if (!isBrowserLoopback(name) && !isListed && this.#options.isOwnHost?.(host) !== true) {
      throw new Problem(
        'forbidden',
        'This host name is not allowed; SLIPWAY_ALLOWED_HOSTS names those that are, and SLIPWAY_WEB_URL (agent server) or SLIPWAY_PUBLIC_URL (sandbox server) the address of a proxy',
      )
    }
    this.#lastHost = host
  }

  #checkPage(method: string | undefined, headers: IncomingHttpHeaders, page?: PageRequest): void {
    const { origin } = headers
    const isReading = method === 'GET' || method === 'HEAD'
    if (
      isReading &&
      page?.credential !== undefined &&
      !(page.credential instanceof Problem) &&
      page.credential.isInAddress
    )
      return
    if (origin !== undefined) {
      if (this.#canReadReply(headers, page)) return
      // Without the key it opens nothing, and no reply is read. A cookie comes from any page.
      if (isReading && this.hasKeys && page?.credential === undefined) return
      throw foreignPageProblem()
    }
    // Another port of this machine is of the same site, and foreign.
    if (this.hasKeys || !/^(cross|same)-site$/.test(String(headers['sec-fetch-site']))) return
    // A link to this server is fine; a form of another site that acts is not.
    if (!isReading || headers['sec-fetch-mode'] !== 'navigate') throw foreignPageProblem()
  }
}

/** Whether a page may have sent the request: programs do not send these headers on their own. */
function isOfBrowser({ origin, cookie, 'sec-fetch-site': site }: IncomingHttpHeaders): boolean {
  return origin !== undefined || cookie !== undefined || site !== undefined
}

function isLoopbackSocket({ localAddress = '' }: Socket): boolean {
  return isLoopback(localAddress.replace(/^::ffff:/, ''))
}

/** Whether a Host header names the host and port of an address. */
export function isHostOf(url: string | undefined, host: string): boolean {
  const parsed = URL.parse(url ?? '')
  return parsed !== null && URL.parse(`${parsed.protocol}//${host}`)?.host === parsed.host
}

/** Whether it names the host of an address; proxies often leave out its port, as nginx with `Host $host`. */
export function isHostNameOf(url: string | undefined, host: string): boolean {
  const name = URL.parse(url ?? '')?.hostname
  return name !== undefined && URL.parse(`http://${host}`)?.hostname === name
}

/** Whether the request comes from a page of the server that it was sent to. */
export function isSameOrigin({ origin, host }: IncomingHttpHeaders): boolean {
  return origin !== undefined && /^https?:\/\/(.+)$/i.exec(origin)?.[1]?.toLowerCase() === host?.toLowerCase()
}

/** `[::1]:8000` -> `::1`, `Example.org.:80` -> `example.org`; anything else is returned unchanged. */
function hostName(host: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+?)\.?)(?::\d*)?$/i.exec(host)
  return (match?.[1] ?? match?.[2] ?? host).toLowerCase()
}

/** `host:port` where the loopback names of one port are equal. */
function sameServerName(host: string): string {
  return host.replace(/^(127\.0\.0\.1|\[::1\])(?=:|$)/, 'localhost')
}

function offeredKey(headers: IncomingHttpHeaders, allowBearer: boolean): string | string[] | undefined {
  const headerKey = headers['x-session-api-key']
  if (headerKey !== undefined || !allowBearer) return headerKey
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
}

function unauthorizedProblem(): Problem {
  return new Problem('unauthorized', 'Unauthorized')
}

function foreignPageProblem(): Problem {
  return new Problem(
    'forbidden',
    'Pages of this origin may not call this server; SLIPWAY_ALLOWED_ORIGINS names the origins that may, and SLIPWAY_WEB_URL of an agent server the address of a proxy before it',
  )
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

/** Computes again only for another object than the last one. */
function memoizeLast<I extends object, O>(compute: (input: I) => O): (input: I) => O {
  let last: { readonly input: I; readonly output: O } | undefined
  return (input) => {
    if (last?.input !== input) last = { input, output: compute(input) }
    return last.output
  }
}
