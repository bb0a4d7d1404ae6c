import { isHostOf, type ProxyRequest } from '@slipway/http'
import { Problem, serverFailure } from '@slipway/protocol'
import { isBrowserLoopback } from '@slipway/shared/url'

/** Below it are the programs of applications. */
export const applicationPrefix = '/app-backends/{extension_name}'

interface IngressOptions {
  /** `https://apps.example.org`; undefined: there is none. */
  readonly url: string | undefined
  /** Headers of a proxy say how the client has called. */
  readonly trustsForwardedHeaders: boolean
}

/** The origin at which pages of applications and their programs are. */
export class Ingress {
  readonly #options: IngressOptions

  constructor(options: IngressOptions) {
    this.#options = options
  }

  /** As configured; null: there is none. */
  get url(): string | null {
    return this.#options.url ?? null
  }

  /** `https://apps.example.org`. A Problem when there is none, or its address is not usable. */
  get origin(): string {
    const { url } = this.#options
    if (url === undefined)
      throw serverFailure('unavailable', '503: Canvas App backend ingress is not configured')
    const parsed = URL.parse(url)
    if (parsed === null || !/^https?:$/.test(parsed.protocol) || parsed.hostname === '')
      throw serverFailure('unavailable', '503: Canvas App backend ingress is misconfigured')
    return parsed.origin
  }

  /** Whether a Host header names it. */
  isHost(host: string): boolean {
    return isHostOf(this.#options.url, host)
  }

  /** A Problem `misdirected` for a request to another origin, `unavailable` as for `origin`. */
  checkHost(header: ProxyRequest['header']): void {
    const { origin } = this
    const { protocol } = new URL(origin)
    const forwarded = (name: string) =>
      this.#options.trustsForwardedHeaders ? header(name)?.split(',')[0]?.trim() : undefined
    // The server itself speaks HTTP, behind whatever ends TLS.
    const scheme = forwarded('x-forwarded-proto') ?? protocol.slice(0, -1)
    const host = forwarded('x-forwarded-host') ?? header('host') ?? ''
    if (URL.parse(`${scheme}://${host}`)?.origin !== origin)
      throw new Problem('misdirected', 'Canvas App request must use the configured ingress origin')
  }

  /** A Problem where browsers would not take a Secure cookie. */
  checkSecure(): void {
    const { protocol, hostname } = new URL(this.origin)
    if (protocol !== 'https:' && !isBrowserLoopback(hostname))
      throw serverFailure(
        'unavailable',
        '503: Canvas App sessions require HTTPS or a loopback secure context',
      )
  }
}
