import type { IncomingMessage } from 'node:http'

/** The path prefix under which a proxy publishes this server: `/slipway`, or none. */
export class BasePath {
  readonly #path: () => string
  readonly #stripped = new WeakSet<IncomingMessage>()
  /**
   * Strips the base path from a request's address, once, and returns the rest. Undefined without a base path.
   */
  readonly rewrite: ((raw: IncomingMessage) => string) | undefined

  /**
   * Throws an Error when it is not an absolute path of plain segments. A function returns the current one,
   * which `parseBasePath` has returned.
   */
  constructor(input: string | (() => string)) {
    const fixed = typeof input === 'string' ? parseBasePath(input) : undefined
    this.#path = typeof input === 'string' ? () => fixed ?? '' : input
    if (fixed !== '') this.rewrite = (raw) => this.#stripPrefix(raw)
  }

  /** Without a slash at its end; empty without one. */
  get path(): string {
    return this.#path()
  }

  /** The base path if the request's address had it, else an empty string. */
  prefixOf(raw: IncomingMessage): string {
    return this.#stripped.has(raw) ? this.path : ''
  }

  #stripPrefix(raw: IncomingMessage): string {
    const { url = '' } = raw
    const { path } = this
    if (path === '' || this.#stripped.has(raw) || !url.startsWith(path)) return url
    const rest = url.slice(path.length)
    if (rest !== '' && !/^[/?]/.test(rest)) return url
    this.#stripped.add(raw)
    raw.url = rest.startsWith('/') ? rest : `/${rest}`
    return raw.url
  }
}

/**
 * A base path without a slash at its end; throws an Error when it is not an absolute path of plain segments.
 */
export function parseBasePath(input: string): string {
  const path = input.replace(/\/+$/, '')
  if (!/^(?:\/(?!\.{1,2}(?:\/|$))[\w.~-]+)*$/.test(path))
    throw new Error(`The base path ${input} is not one like /slipway`)
  return path
}
