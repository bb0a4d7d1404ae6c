import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Problem } from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'

export interface GuardOptions {
  /**
   * Session keys; with none the server is open to what comes from this machine. A function answers those of the moment:
   * the same array as long as they are the same, undefined while it is not known yet (then no key fits).
   */
  readonly keys?: readonly Secret[] | (() => readonly Secret[] | undefined)
  /**
   * Called first for every request and upgrade but preflights, with the path (without the base path and the query); throws a Problem
   * to refuse, `unavailable` while the server is not ready for this path.
   */
  checkReady?(path: string): void
  /** Host names, with or without port, that requests may name besides loopback ones. */
  readonly allowedHosts?: readonly string[]
  /** Origins (`https://example.org`) whose pages may call besides loopback ones; a function answers those of the moment, as for keys. */
  readonly allowedOrigins?: readonly string[] | (() => readonly string[])
}

/** What admits instead of a key, on routes with `pages: 'pass'`. */
export interface PageCredential {
  /** It was in the address: whoever has the address may ask, from every page. */
  readonly isInAddress: boolean
  /** The origin of the page that got it; pages of other origins may not read what it opens. */
  readonly origin?: string | undefined
}

/** How a request came to a route with `pages`; the Problem is thrown when it is admitted. */
export interface PageRequest {
  readonly credential: PageCredential | Problem | undefined
}

/** What a page may send; in the answer to OPTIONS. */
export const preflightHeaders = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'x-session-api-key, content-type, x-expose-secrets, x-slipway-wire, last-event-id, idempotency-key, authorization, x-access-token, x-org-id, x-init-api-key, x-openhands-serverconversation-id, traceparent, tracestate',
  'access-control-max-age': '600',
}

const varyOnly = { vary: 'Origin' }
const noKeys: readonly Secret[] = []

/** The address of a request without its query. */
function requestPath({ url = '' }: IncomingMessage): string {
  const at = url.indexOf('?')
  return at < 0 ? url : url.slice(0, at)
}

/** What a browser asks before it sends the request itself: it carries no key, and its refusal hides the real one. */
export function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

/** The one question: may this request do this? */
export class Guard {
  readonly #options: GuardOptions
  readonly #keys: () => readonly Secret[] | undefined
  /** Callers are told apart by more than keys. */
  readonly #identifiesCallers: boolean
  /** The digests of the keys that were there last. */
  #knownKeys: { readonly keys: readonly Secret[]; readonly digests: readonly Buffer[] } | undefined
  readonly #hosts: ReadonlySet<string>
  readonly #origins: () => readonly string[]
  /** As they are compared. */
  #knownOrigins: { readonly origins: readonly string[]; readonly lower: ReadonlySet<string> } | undefined
  /** The last host that was let in; most requests name the same one. */
  #lastHost: string | undefined

  constructor(
    options: GuardOptions,
    { asksCallers: identifiesCallers = false }: { readonly asksCallers?: boolean } = {},
  ) {
    const { keys = noKeys, allowedHosts = [], allowedOrigins = [] } = options
    this.#options = options
    this.#keys = typeof keys === 'function' ? keys : () => keys
    this.#identifiesCallers = identifiesCallers
    this.#hosts = new Set(allowedHosts.map((host) => host.toLowerCase()))
    this.#origins = typeof allowedOrigins === 'function' ? allowedOrigins : () => allowedOrigins
  }

  /** Whether callers need a key, or another proof of who they are. */
  get hasKeys(): boolean {
    return this.#identifiesCallers || this.#keys()?.length !== 0
  }

  /** Throws what the gate throws. */
  checkReady(raw: IncomingMessage): void {
    if (this.#options.checkReady !== undefined && !isPreflight(raw))
      this.#options.checkReady(requestPath(raw))
  }

  /**
   * Throws a Problem `forbidden` for a foreign host or page and `unauthorized` for a missing or wrong key. With `takesBearer` it
   * may also come as `Authorization: Bearer`.
   */
  authorize(
    { method, headers }: IncomingMessage,
    isOpen: boolean,
    allowBearer = false,
    page?: PageRequest,
  ): void {
    this.#checkHost(headers)
    if (page?.credential instanceof Problem) throw page.credential
    this.#checkPage(method, headers, page)
    if (page?.credential !== undefined) return
    if (!isOpen && this.hasKeys && !this.isValidKey(offeredKey(headers, allowBearer))) {
      throw new Problem('unauthorized', 'Unauthorized')
    }
  }

  /** The key that a request was let in with; undefined when it has none that fits. */
  sessionKey({ headers }: IncomingMessage, allowBearer: boolean): string | undefined {
    const candidate = offeredKey(headers, allowBearer)
    return typeof candidate === 'string' && this.isValidKey(candidate) ? candidate : undefined
  }

  /** As `admit`, without the key: an upgrade may offer it in other ways. Reading is as good as writing here. */
  authorizeUpgrade(headers: IncomingHttpHeaders): void {
    this.#checkHost(headers)
    if (headers.origin !== undefined && !this.isAllowedOrigin(headers.origin, headers.host))
      throw foreignPageProblem()
  }

  /** Headers that each answer to this request carries, refusals too: they let a page read it (CORS). */
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

  /** As `allows`; and pages of other origins on routes for them, unless what they show was given to a page of another origin. */
  #canReadReply(headers: IncomingHttpHeaders, page: PageRequest | undefined): boolean {
    const { origin, host } = headers
    if (origin === undefined) return false
    if (this.isAllowedOrigin(origin, host)) return true
    if (page === undefined) return false
    const isWeb = /^https?:\/\/./i.test(origin)
    const { credential } = page
    if (credential === undefined || credential instanceof Problem) return isWeb && this.hasKeys
    if (!credential.isInAddress) return credential.origin === origin.toLowerCase()
    // A page in a sandbox has no origin of its own. What it embeds is run, not read.
    return isWeb || (origin === 'null' && /^(script|style|font)$/.test(String(headers['sec-fetch-dest'])))
  }

  /** Whether it is one of the keys, in a time that does not depend on how far it is right. */
  isValidKey(candidate: string | string[] | undefined): boolean {
    if (typeof candidate !== 'string') return false
    const candidateDigest = digest(candidate)
    return this.#digests().reduce((isMatch, key) => timingSafeEqual(key, candidateDigest) || isMatch, false)
  }

  #digests(): readonly Buffer[] {
    const keys = this.#keys() ?? noKeys
    if (this.#knownKeys?.keys === keys) return this.#knownKeys.digests
    const digests = keys.map((key) => digest(key.reveal()))
    this.#knownKeys = { keys, digests }
    return digests
  }

  #lowerOrigins(): ReadonlySet<string> {
    const origins = this.#origins()
    if (this.#knownOrigins?.origins !== origins) {
      const lower = new Set(origins.map((origin) => origin.toLowerCase().replace(/\/$/, '')))
      this.#knownOrigins = { origins, lower }
    }
    return this.#knownOrigins.lower
  }

  /** Whether a page of this origin may call: the server's own, a loopback one with any port, or one of the list. */
  isAllowedOrigin(origin: string, host: string | undefined): boolean {
    const lower = origin.toLowerCase()
    if (this.#lowerOrigins().has(lower)) return true
    const name = /^https?:\/\/(.+)$/.exec(lower)?.[1]
    return name !== undefined && (name === host?.toLowerCase() || isLoopback(hostName(name)))
  }

  /** A name that resolves to this machine but is not of this machine is how a page reaches into it. */
  #checkHost({ host }: IncomingHttpHeaders): void {
    if (this.hasKeys && this.#hosts.size === 0) return
    if (host === undefined) throw new Problem('bad_request', 'The Host header is missing')
    if (host === this.#lastHost) return
    const name = hostName(host)
    if (!isLoopback(name) && !this.#hosts.has(name) && !this.#hosts.has(host.toLowerCase())) {
      throw new Problem('forbidden', 'This host name is not allowed')
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
      if (this.#canReadReply(headers, page) || (isReading && this.hasKeys)) return
      throw foreignPageProblem()
    }
    if (this.hasKeys || headers['sec-fetch-site'] !== 'cross-site') return
    if (headers['sec-fetch-mode'] !== 'navigate') throw foreignPageProblem()
  }
}

/** Whether a server that listens on this name or address is reached from this machine only. */
export function isLoopback(name: string): boolean {
  return (
    name === 'localhost' ||
    name === '::1' ||
    name.endsWith('.localhost') ||
    /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(name)
  )
}

/** `[::1]:8000` -> `::1`, `Example.org.:80` -> `example.org`; anything else is given back as it is. */
function hostName(host: string): string {
  const match = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+?)\.?)(?::\d*)?$/i.exec(host)
  return (match?.[1] ?? match?.[2] ?? host).toLowerCase()
}

function offeredKey(headers: IncomingHttpHeaders, allowBearer: boolean): string | string[] | undefined {
  const headerKey = headers['x-session-api-key']
  if (headerKey !== undefined || !allowBearer) return headerKey
  return /^Bearer +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]
}

function foreignPageProblem(): Problem {
  return new Problem('forbidden', 'Pages of this origin may not call this server')
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
