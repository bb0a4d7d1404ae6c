import { agentRoutes, Problem, type Route, Secret } from '@slipway/protocol'
import { NoAnswerError, refusal } from './call-error.ts'
import type { CallInput, CallOutput, RouteName } from './route-types.ts'

export interface ClientOptions {
  /**
   * Base address, `http://127.0.0.1:8000`; a path in it is kept as a prefix. `http+unix://%2Frun%2Fx.sock` names a Unix socket and
   * needs a `fetch` that knows such addresses.
   */
  readonly url: string
  /** Sent as `X-Session-API-Key`. */
  readonly sessionApiKey?: Secret | string | undefined
  readonly fetch?: typeof globalThis.fetch
}

/** What a request is made of, whatever its route. */
interface Parts {
  readonly params?: Readonly<Record<string, unknown>>
  readonly query?: Readonly<Record<string, unknown>>
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/**
 * Typed calls of an agent server. Every method rejects with a `CallError` when the server refuses, with a
 * `NoAnswerError` when nobody answers, and with the signal's reason when the signal aborts.
 */
export class Client {
  /** The base address, without a slash at its end. */
  readonly url: string
  readonly #key: Secret | undefined
  readonly #fetch: typeof globalThis.fetch

  /** Throws a Problem `bad_request` when `url` is no http, https or http+unix address. */
  constructor(options: ClientOptions) {
    this.url = baseOf(options.url)
    const { sessionApiKey: key } = options
    this.#key = typeof key === 'string' ? new Secret(key) : key
    this.#fetch = options.fetch ?? ((input, init) => globalThis.fetch(input, init))
  }

  /** Calls a route and reads its answer: JSON as a value (as the server sent it, not checked again), the rest as text. */
  async call<N extends RouteName>(name: N, input: CallInput<N>): Promise<CallOutput<N>> {
    const response = await this.open(name, input)
    const isJson = /\bjson\b/i.test(response.headers.get('content-type') ?? '')
    return await this.#read(isJson ? response.json() : response.text(), input.signal)
  }

  /** Calls a route and answers the successful response with its body unread: for streams and for raw JSON text. */
  async open<N extends RouteName>(name: N, input: CallInput<N>): Promise<Response> {
    const route: Route = agentRoutes[name]
    const { params = {}, query = {}, body, headers, signal }: Parts = input
    const init: RequestInit = {
      method: route.method,
      headers: { accept: '*/*', ...headers },
      signal: signal ?? null,
    }
    if (body !== undefined) {
      init.body = JSON.stringify(body)
      init.headers = { 'content-type': 'application/json', ...init.headers }
    }
    return await this.#send(this.url + pathOf(route, params) + queryOf(query), init)
  }

  /**
   * Imports events, one JSON object a line. All of them are stored or none. `unknown: 'keep'` also takes kinds
   * and members of other versions. A `CallError` with faults names the line in `loc`: `["body", line, ...place]`.
   */
  async importEvents(
    stream: ReadableStream<Uint8Array>,
    options: { readonly unknown?: 'keep' | undefined; readonly signal?: AbortSignal | undefined } = {},
  ): Promise<CallOutput<'importConversation'>> {
    const route: Route = agentRoutes.importConversation
    // A body that streams needs `duplex`, which the browsers' types do not name yet.
    const init: RequestInit & { duplex: 'half' } = {
      method: route.method,
      headers: { 'content-type': route.stream ?? '' },
      body: stream,
      duplex: 'half',
      signal: options.signal ?? null,
    }
    const response = await this.#send(this.url + route.path + queryOf({ unknown: options.unknown }), init)
    return await this.#read(response.json(), options.signal)
  }

  /** The log of a conversation as bytes, one event a line in order of position; with `gzip` as a gzip file. */
  async exportEvents(
    conversationId: string,
    options: {
      readonly meta?: boolean | undefined
      readonly gzip?: boolean | undefined
      readonly signal?: AbortSignal | undefined
    } = {},
  ): Promise<ReadableStream<Uint8Array>> {
    const { meta = false, gzip = false, signal } = options
    const response = await this.open('exportConversation', {
      params: { conversation_id: conversationId },
      query: { meta: String(meta), gzip: String(gzip) },
      signal,
    })
    return response.body ?? new Blob([]).stream()
  }

  async #send(url: string, init: RequestInit): Promise<Response> {
    const headers = new Headers(init.headers)
    if (this.#key !== undefined) headers.set('x-session-api-key', this.#key.open())
    const response = await this.#read(this.#fetch(url, { ...init, headers }), init.signal)
    if (!response.ok) throw await refusal(response)
    return response
  }

  /** Gives a failure of the network its name. */
  async #read<T>(pending: Promise<T>, signal: AbortSignal | null | undefined): Promise<T> {
    try {
      return await pending
    } catch (error) {
      throw signal?.aborted ? signal.reason : new NoAnswerError(this.url, error)
    }
  }
}

function baseOf(text: string): string {
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

function pathOf(route: Route, params: Readonly<Record<string, unknown>>): string {
  return route.path.replace(/\{(\w+)\*?\}/g, (_, name: string) => encodeURIComponent(String(params[name])))
}

/** Undefined members are left out, members of an array are repeated. */
function queryOf(query: Readonly<Record<string, unknown>>): string {
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const one of Array.isArray(value) ? value : [value])
      if (one !== undefined) search.append(name, String(one))
  }
  return search.size === 0 ? '' : `?${search}`
}
