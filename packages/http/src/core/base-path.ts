import type { IncomingMessage } from 'node:http'

/** The path prefix under which a proxy publishes this server: `/slipway`, or none. */
export class BasePath {
  readonly #path: string
  readonly #stripped = new WeakSet<IncomingMessage>()
  /**
   * Strips the base path from a request's address, once, and returns the rest. Undefined without a base path.
   */
  readonly rewrite: ((raw: IncomingMessage) => string) | undefined

  /** Throws an Error when it is not an absolute path of plain segments. */
  constructor(input: string) {
    this.#path = input.replace(/\/+$/, '')
    if (!/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/.test(this.#path)) {
      throw new Error(`The base path ${input} is not one like /slipway`)
    }
    if (this.#path !== '') this.rewrite = (raw) => this.#stripPrefix(raw)
  }

  /** The base path if the request's address had it, else an empty string. */
  prefixOf(raw: IncomingMessage): string {
    return this.#stripped.has(raw) ? this.#path : ''
  }

  #stripPrefix(raw: IncomingMessage): string {
    const { url = '' } = raw
    if (this.#stripped.has(raw) || !url.startsWith(this.#path)) return url
    const rest = url.slice(this.#path.length)
    if (rest !== '' && !/^[/?]/.test(rest)) return url
    this.#stripped.add(raw)
    raw.url = rest.startsWith('/') ? rest : `/${rest}`
    return raw.url
  }
}
