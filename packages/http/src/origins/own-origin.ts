import { randomBytes } from 'node:crypto'
import { type LogFunction, Problem } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import { createApp } from '../app.ts'
import { cookieValues } from '../core/cookies.ts'
import type { Reply } from '../core/handler.ts'
import { type Listening, listen, listenOnLoopback } from '../listen.ts'
import type { ProxyRequest, ProxyRoute, ProxyTarget } from '../proxy/reverse-proxy.ts'
import { withoutCredentials } from './credential-headers.ts'
import { OriginSessions } from './origin-sessions.ts'

export interface OwnOriginOptions {
  /** Begins the host name: letters, digits and dashes. */
  readonly label: string
  /** Where requests with a session go; throws a Problem to refuse one. */
  target(): Pick<ProxyTarget, 'url' | 'headers'>
  readonly log: LogFunction
  readonly clock?: Clock | undefined
}

const ticketParameter = 'slipway_ticket'
/** A name of DNS has at most 63 characters, and an id follows. */
const maxLabelLength = 50
const safeMethods = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * An origin that belongs to one program, so that its pages are foreign to the server and to other programs.
 *
 * Browsers separate pages by scheme, name and port, but cookies by name alone: a cookie of 127.0.0.1 goes to
 * every port. So a port is not enough, and each origin has a name as well, `app-1f2e3d4c.localhost`, which
 * browsers resolve to loopback without DNS. No cookie of the server has that name, and the cookie of one
 * origin is sent to no other.
 *
 * Invariants:
 * - A request passes only with a session of this origin, at exactly this name and port. Keys and sessions of
 *   the server open nothing here.
 * - The cookie works in frames, so foreign pages make browsers send it. A request that a browser calls
 *   foreign never reaches the program, links and forms included: the ticket of the server is the only way in.
 * - The program sees no cookie, key or ticket, and sets no cookie.
 *
 * Decision: docs/decisions/0046-own-origins.md.
 */
export class OwnOrigin {
  readonly #options: OwnOriginOptions
  readonly #id = randomBytes(4).toString('hex')
  readonly #sessions: OriginSessions
  #listening: Listening | undefined

  private constructor(options: OwnOriginOptions) {
    this.#options = options
    this.#sessions = new OriginSessions(options.clock)
  }

  /** Listens on a port that the kernel chooses. */
  static async open(options: OwnOriginOptions): Promise<OwnOrigin> {
    const { log, clock } = options
    const origin = new OwnOrigin(options)
    const app = () =>
      createApp(
        {},
        {},
        { log, clock, audit: () => {}, isForeignHost: () => true, proxyRoutes: [origin.#route] },
      )
    origin.#listening = await listenOnLoopback((address) => listen(app(), address))
    return origin
  }

  /** `http://app-1f2e3d4c.localhost:40001` */
  get url(): string {
    const name = `${this.#options.label.slice(0, maxLabelLength)}-${this.#id}.localhost`
    return `http://${name}:${this.#listening?.port}`
  }

  /** An address that opens the origin once. */
  createLink(): { readonly url: string; readonly expiresAtMs: number } {
    const { ticket, expiresAtMs } = this.#sessions.createTicket()
    return { url: `${this.url}/?${ticketParameter}=${ticket}`, expiresAtMs }
  }

  async close(): Promise<void> {
    this.#sessions.endAll()
    await this.#listening?.close()
  }

  get #route(): ProxyRoute {
    return {
      prefix: '',
      isBridge: true,
      answer: (request) => this.#exchangeTicket(request),
      target: async (request) => {
        const { header, isUpgrade } = request
        this.#checkHost(header)
        this.#checkPage(request)
        const signal = cookieValues(header('cookie'), this.#cookieName)
          .map((token) => this.#sessions.find(token))
          .find((found) => found !== undefined)
        if (signal === undefined)
          throw new Problem('unauthorized', 'Open this address with a link that the server has made')
        const { url, headers } = this.#options.target()
        const origin = isUpgrade ? undefined : header('origin')
        return { url, signal, headers: { ...withoutCredentials, origin, ...headers } }
      },
    }
  }

  /** A session for the ticket in an address, and a page that leads to the address without it. */
  #exchangeTicket({ header, method, path, query }: ProxyRequest): Reply | undefined {
    const parameters = new URLSearchParams(query)
    const ticket = method === 'GET' ? parameters.get(ticketParameter) : null
    if (ticket === null) return undefined
    this.#checkHost(header)
    const token = this.#sessions.exchange(ticket)
    if (token === undefined)
      throw new Problem('forbidden', 'This link is used or too old; ask the server for another one')
    parameters.delete(ticketParameter)
    const rest = parameters.size === 0 ? '' : `?${parameters}`
    return {
      bytes: Buffer.from(forwardingPage(this.url + path + rest)),
      contentType: 'text/html; charset=utf-8',
      headers: {
        'set-cookie': `${this.#cookieName}=${token}; Path=/; HttpOnly; Secure; SameSite=None; Partitioned`,
        'cache-control': 'no-store',
        'content-security-policy': "default-src 'none'",
        'referrer-policy': 'no-referrer',
      },
    }
  }

  get #cookieName(): string {
    return `slipway_origin_${this.#id}`
  }

  #checkHost(header: ProxyRequest['header']): void {
    if (header('host')?.toLowerCase() !== new URL(this.url).host)
      throw new Problem('misdirected', 'The request is addressed to another host')
  }

  /** Browsers that do not say whether a page is foreign name its origin with everything that acts. */
  #checkPage({ header, isUpgrade, method }: ProxyRequest): void {
    const origin = header('origin')
    const site = header('sec-fetch-site') ?? 'none'
    const isReading = !isUpgrade && safeMethods.has(method)
    const isOwn = origin === undefined ? isReading : origin === this.url
    if (!isOwn || (site !== 'same-origin' && site !== 'none'))
      throw new Problem('forbidden', 'Pages of other origins have no access')
  }
}

/**
 * A page instead of a redirect: browsers count the request after a redirect to the page that had the link,
 * which is foreign.
 */
function forwardingPage(url: string): string {
  const escaped = url.replaceAll('&', '&amp;').replaceAll('"', '&quot;').replaceAll('<', '&lt;')
  return `<!doctype html><title>Opening</title><meta http-equiv="refresh" content="0;url=${escaped}">`
}
