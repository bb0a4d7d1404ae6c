import { hash, timingSafeEqual } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { Problem, type Secret } from '@slipway/protocol'

export interface GuardOptions {
  /** Session keys; with none the server is open to what comes from this machine. */
  readonly keys?: readonly Secret[]
  /** Host names, with or without port, that requests may name besides loopback ones. */
  readonly allowedHosts?: readonly string[]
  /** Origins (`https://example.org`) whose pages may call besides loopback ones. */
  readonly allowedOrigins?: readonly string[]
}

/** What a page may send; in the answer to OPTIONS. */
export const preflightHeaders = {
  'access-control-allow-methods': 'GET, POST, PUT, PATCH, DELETE',
  'access-control-allow-headers':
    'x-session-api-key, content-type, x-expose-secrets, last-event-id, idempotency-key',
  'access-control-max-age': '600',
}

const unread = { vary: 'Origin' }

/** The one question: may this request do this? */
export class Guard {
  readonly #digests: readonly Buffer[]
  readonly #hosts: ReadonlySet<string>
  readonly #origins: ReadonlySet<string>
  /** The last host that was let in; most requests name the same one. */
  #lastHost: string | undefined

  constructor({ keys = [], allowedHosts = [], allowedOrigins = [] }: GuardOptions) {
    this.#digests = keys.map((key) => digest(key.open()))
    this.#hosts = new Set(allowedHosts.map((host) => host.toLowerCase()))
    this.#origins = new Set(allowedOrigins.map((origin) => origin.toLowerCase().replace(/\/$/, '')))
  }

  get hasKeys(): boolean {
    return this.#digests.length > 0
  }

  /** Throws a Problem `forbidden` for a foreign host or page and `unauthorized` for a missing or wrong key. */
  admit({ method, headers }: IncomingMessage, isOpen: boolean): void {
    this.#checkHost(headers)
    this.#checkPage(method, headers)
    if (!isOpen && this.hasKeys && !this.isKey(headers['x-session-api-key'])) {
      throw new Problem('unauthorized', 'Unauthorized')
    }
  }

  /** As `admit`, without the key: an upgrade may offer it in other ways. Reading is as good as writing here. */
  admitUpgrade(headers: IncomingHttpHeaders): void {
    this.#checkHost(headers)
    if (headers.origin !== undefined && !this.allows(headers.origin, headers.host)) throw foreignPage()
  }

  /** Headers that each answer to this request carries, refusals too: they let a page read it (CORS). */
  headers({ origin, host }: IncomingHttpHeaders): Readonly<Record<string, string>> {
    if (origin === undefined || !this.allows(origin, host)) return unread
    return {
      vary: 'Origin',
      'access-control-allow-origin': origin,
      'access-control-allow-credentials': 'true',
      'access-control-expose-headers': 'etag',
    }
  }

  /** Whether it is one of the keys, in a time that does not depend on how far it is right. */
  isKey(offered: string | string[] | undefined): boolean {
    if (typeof offered !== 'string') return false
    const given = digest(offered)
    return this.#digests.reduce((found, key) => timingSafeEqual(key, given) || found, false)
  }

  /** Whether a page of this origin may call: the server's own, a loopback one with any port, or one of the list. */
  allows(origin: string, host: string | undefined): boolean {
    const lower = origin.toLowerCase()
    if (this.#origins.has(lower)) return true
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

  #checkPage(method: string | undefined, headers: IncomingHttpHeaders): void {
    const { origin } = headers
    const isReading = method === 'GET' || method === 'HEAD'
    if (origin !== undefined) {
      if (this.allows(origin, headers.host) || (isReading && this.hasKeys)) return
      throw foreignPage()
    }
    if (this.hasKeys || headers['sec-fetch-site'] !== 'cross-site') return
    if (headers['sec-fetch-mode'] !== 'navigate') throw foreignPage()
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
  const parts = /^(?:\[([0-9a-f:.]+)\]|([^:[\]]+?)\.?)(?::\d*)?$/i.exec(host)
  return (parts?.[1] ?? parts?.[2] ?? host).toLowerCase()
}

function foreignPage(): Problem {
  return new Problem('forbidden', 'Pages of this origin may not call this server')
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
