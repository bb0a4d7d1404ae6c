import type { IncomingMessage } from 'node:http'

/** The part of a path that is this server's address, not the name of a thing in it: `/slipway`, or nothing. */
export class BasePath {
  readonly #path: string
  readonly #stripped = new WeakSet<IncomingMessage>()
  /** Takes the base path off a request's address, once, and answers the rest. Undefined when there is no base path. */
  readonly rewrite: ((raw: IncomingMessage) => string) | undefined

  /** Throws an Error when it is not an absolute path of plain segments. */
  constructor(input: string) {
    this.#path = input.replace(/\/+$/, '')
    if (!/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/.test(this.#path)) {
      throw new Error(`The base path ${input} is not one like /slipway`)
    }
    if (this.#path !== '') this.rewrite = (raw) => this.#stripPrefix(raw)
  }

  /** The base path if the request came with it, or nothing. */
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
