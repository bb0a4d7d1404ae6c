import type { RouteTable } from '@slipway/protocol'
import { buildRoutePath, must, Problem } from '@slipway/protocol/client'
import { readText } from '@slipway/shared/async/read-limited'
import { Secret } from '@slipway/shared/redaction'
import { sameOriginFetch } from '@slipway/shared/url'
import { ConnectionError, readCallError } from './errors.ts'
import type { CallArguments, RouteOutput } from './route-types.ts'

interface RouteCallerOptions {
  /** Base address with an optional path prefix; see the clients. */
  readonly url: string
  readonly fetch?: typeof globalThis.fetch
  /** The key, and the header and scheme that it is sent with. */
  readonly key: Secret | string | undefined
  readonly keyHeader: string
  readonly keyScheme?: string
  /** Longest answer of `call`; 256 MiB unless given. */
  readonly maxAnswerBytes?: number
  /** The command that starts such a server, for people. */
  readonly startedBy: string
}

/** The parts of a request of any route. */
interface RequestParts {
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/**
 * Typed calls of the routes of one server. Every method rejects with a `CallError` when the server refuses,
 * with a `ConnectionError` when the server cannot be reached, and with the signal's reason when the signal
 * aborts.
 */
export class RouteCaller<T extends RouteTable> {
  /** The base address, without a slash at its end. */
  readonly url: string
  readonly #paths: Readonly<Record<keyof T, string>>
  readonly #options: RouteCallerOptions
  readonly #key: Secret | undefined

  /** Throws a Problem `bad_request` when `url` is no http, https or http+unix address. */
  constructor(paths: Readonly<Record<keyof T, string>>, options: RouteCallerOptions) {
    this.url = parseBaseUrl(options.url)
    this.#paths = paths
    this.#options = options
    this.#key = typeof options.key === 'string' ? new Secret(options.key) : options.key
  }

  /** Calls a route and returns its answer: JSON as a value (not validated), anything else as text. */
  async call<N extends keyof T>(name: N, ...input: CallArguments<T[N]>): Promise<RouteOutput<T[N]>> {
    const response = await this.open(name, ...input)
    const isJson = /\bjson\b/i.test(response.headers.get('content-type') ?? '')
    const [parts = {}]: readonly (RequestParts | undefined)[] = input
    const pending = this.#readText(response).then((text) => (isJson ? JSON.parse(text) : text))
    return await this.mapNetworkErrors(pending, parts.signal)
  }

  /** Calls a route and returns the successful response with its body unread: for streams and raw JSON. */
  async open<N extends keyof T>(name: N, ...input: CallArguments<T[N]>): Promise<Response> {
    const [method = '', path = ''] = must<string>(this.#paths[name], 'the route').split(' ')
    const [parts = {}]: readonly (RequestParts | undefined)[] = input
    const { params = {}, query = {}, body, headers, signal } = parts
    const init: RequestInit = {
      method,
      headers: { accept: '*/*', ...headers },
      signal: signal ?? null,
    }
    if (body !== undefined) {
      init.body = JSON.stringify(body)
      init.headers = { 'content-type': 'application/json', ...init.headers }
    }
    return await this.send(buildRoutePath({ path }, params) + buildQuery(query), init)
  }

  /** Sends a request to a path of the server, with the key. */
  protected async send(path: string, init: RequestInit): Promise<Response> {
    const { fetch = globalThis.fetch, keyHeader, keyScheme = '' } = this.#options
    const headers = new Headers(init.headers)
    if (this.#key !== undefined) headers.set(keyHeader, keyScheme + this.#key.reveal())
    const response = await this.mapNetworkErrors(
      sameOriginFetch(fetch)(this.url + path, { ...init, headers }),
      init.signal,
    )
    if (!response.ok) throw await readCallError(response)
    return response
  }

  /** The value of a JSON answer, not validated. */
  protected async readJson<R>(response: Response, signal: AbortSignal | null | undefined): Promise<R> {
    return await this.mapNetworkErrors(
      this.#readText(response).then((text): R => JSON.parse(text)),
      signal,
    )
  }

  #readText(response: Response): Promise<string> {
    return readText(response, this.#options.maxAnswerBytes)
  }

  /** Maps network failures to `ConnectionError`. */
  protected async mapNetworkErrors<R>(
    pending: Promise<R>,
    signal: AbortSignal | null | undefined,
  ): Promise<R> {
    try {
      return await pending
    } catch (error) {
      throw signal?.aborted ? signal.reason : new ConnectionError(this.url, error, this.#options.startedBy)
    }
  }
}

function parseBaseUrl(text: string): string {
  const url = URL.parse(text)
  if (
    url === null ||
    !/^http(?:s|\+unix)?:$/.test(url.protocol) ||
    url.username !== '' ||
    url.search !== '' ||
    url.hash !== ''
  ) {
    throw new Problem(
      'bad_request',
      'The address is not one of http or https without user, query and fragment.',
    )
  }
  // Not the origin: of a scheme that is not the web's it is the text "null".
  return `${url.protocol}//${url.host}${url.pathname.replace(/\/+$/, '')}`
}

/** Undefined members are left out, members of an array are repeated. */
export function buildQuery(query: Readonly<Record<string, unknown>>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const item of Array.isArray(value) ? value : [value])
      if (item !== undefined) search.append(name, String(item))
  }
  return search.size === 0 ? '' : `?${search}`
}
