import { Problem, type Route } from '@slipway/protocol'
import { ConnectionError, readCallError } from './errors.ts'
import type { RouteInput, RouteOutput } from './route-types.ts'

export interface RouteCallerOptions {
  /**
   * Base address, `http://127.0.0.1:8000`; a path in it is kept as a prefix. `http+unix://%2Frun%2Fx.sock` names a Unix socket and
   * needs a `fetch` that knows such addresses.
   */
  readonly url: string
  /** The header with the key; undefined: none is sent. Asked for each request, so that the key stays closed in between. */
  readonly keyHeader: () => readonly [name: string, value: string] | undefined
  /** What starts such a server, for people. */
  readonly startedBy: string
  readonly fetch?: typeof globalThis.fetch | undefined
}

/** What a request is made of, whatever its route. */
interface RequestParts {
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/** Requests to one server, by the values of its route table. What rejects and with what is said at the clients. */
export class RouteCaller {
  /** The base address, without a slash at its end. */
  readonly url: string
  readonly #options: RouteCallerOptions
  readonly #fetch: typeof globalThis.fetch

  /** Throws a Problem `bad_request` when `url` is no http, https or http+unix address. */
  constructor(options: RouteCallerOptions) {
    this.url = parseBaseUrl(options.url)
    this.#options = options
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
  }

  /** Calls a route and reads its answer: JSON as a value, the rest as text. */
  async call<R extends Route>(route: R, input: RouteInput<R>): Promise<RouteOutput<R>> {
    const response = await this.open(route, input)
    const isJson = /\bjson\b/i.test(response.headers.get('content-type') ?? '')
    return await this.mapNetworkErrors(isJson ? response.json() : response.text(), input.signal)
  }

  /** Calls a route and answers the successful response with its body unread. */
  async open<R extends Route>(route: R, input: RouteInput<R>): Promise<Response> {
    const { params = {}, query = {}, body, headers, signal }: RequestParts = input
    const init: RequestInit = {
      method: route.method,
      headers: { accept: '*/*', ...headers },
      signal: signal ?? null,
    }
    if (body !== undefined) {
      init.body = JSON.stringify(body)
      init.headers = { 'content-type': 'application/json', ...init.headers }
    }
    return await this.send(buildPath(route, params) + buildQuery(query), init)
  }

  /** Sends a request to a path of the server, with the key. */
  async send(path: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers)
    const key = this.#options.keyHeader()
    if (key !== undefined) headers.set(...key)
    const response = await this.mapNetworkErrors(
      this.#fetch(this.url + path, { ...init, headers }),
      init.signal,
    )
    if (!response.ok) throw await readCallError(response)
    return response
  }

  /** Gives a failure of the network its name. */
  async mapNetworkErrors<T>(pending: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
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

function buildPath(route: Route, params: Readonly<Record<string, unknown>>): string {
  return route.path.replace(/\{(\w+)\*?\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
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
