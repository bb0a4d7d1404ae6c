import type { IncomingMessage } from 'node:http'
import { Problem, type Route } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import { decodePercent } from '@slipway/shared/url'
import { type Guard, isPreflight, type PageRequest, preflightHeaders } from './auth/guard.ts'
import type { Reply } from './core/handler.ts'
import { getHeader } from './core/incoming-request.ts'
import { emptyBody, toErrorReply, toOpenaiError } from './core/reply.ts'
import type { Site } from './static/site.ts'

export interface FallbackOptions {
  /** Serves paths below no path of the server's own; its files need no key. */
  readonly site?: Pick<Site, 'get'> | undefined
  /**
   * Identifies the caller instead of a key, before a byte of the body is read: of every route that is not
   * `open`, of the description of the API and of unknown paths (with a route of the tag `docs`). The result
   * is `Request.caller`. Throws a Problem to refuse. WebSockets still need one of `keys`.
   */
  identify?(route: Route, header: (name: string) => string | undefined): unknown
}

/** Replies to requests that no route of the table serves. */
export class FallbackReplies {
  readonly #options: FallbackOptions
  readonly #guard: Guard
  /** The first segments of all paths of the server's own. */
  readonly #reservedSegments = new Set<string>()
  /** Those below which clients of OpenAI's interface call. */
  readonly #openaiSegments = new Set<string>()

  constructor(options: FallbackOptions, guard: Guard) {
    this.#options = options
    this.#guard = guard
  }

  /** Keeps the first segment of a path from the site. `errors`: how all paths below it are refused. */
  reserve(path: string, errors?: Route['errors']): void {
    this.#reservedSegments.add(firstSegment(path))
    if (errors === 'openai') this.#openaiSegments.add(firstSegment(path))
  }

  /** Authorizes a request to a path without a route of the table; a promise while the caller is looked up. */
  authorize(
    raw: IncomingMessage,
    isOpen: boolean,
    route = docsRoute,
    page?: PageRequest,
  ): Promise<unknown> | undefined {
    const { identify } = this.#options
    this.#guard.authorize(raw, isOpen || identify !== undefined, route.bearer, page)
    const caller = isOpen ? undefined : identify?.(route, (name) => getHeader(raw, name))
    return caller instanceof Promise ? caller : undefined
  }

  /** The path has other methods than this one. */
  methodNotAllowed(
    raw: IncomingMessage,
    methods: Iterable<string>,
    page: PageRequest | undefined,
  ): Reply | Promise<Reply> {
    const allow = [...methods, 'OPTIONS'].join(', ')
    const isOptions = raw.method === 'OPTIONS'
    if (!isOptions && this.#isOpenai(raw)) return this.#openaiRefusal(raw, [...methods])
    const authorized = this.authorize(raw, isOptions, docsRoute, page)
    const reply: Reply = isOptions
      ? { status: 204, bytes: emptyBody, headers: { allow, ...preflightHeaders } }
      : { status: 405, json: { detail: 'Method Not Allowed' }, headers: { allow } }
    return authorized === undefined ? reply : authorized.then(() => reply)
  }

  /** The site's reply outside the reserved segments, or 404. */
  unknownPath(raw: IncomingMessage): Reply | Promise<Reply> {
    const { site } = this.#options
    const { method, url = '' } = raw
    const isReading = method === 'GET' || method === 'HEAD'
    if (site === undefined || !isReading || this.#reservedSegments.has(firstSegment(url))) {
      return this.#notFound(raw)
    }
    this.#guard.authorize(raw, true)
    return site.get(url, (name) => getHeader(raw, name)).then((reply) => reply ?? throwNotFound())
  }

  /**
   * Unknown paths need a key too, or anyone could find out which exist. A preflight carries none and must
   * pass.
   */
  #notFound(raw: IncomingMessage): Reply | Promise<Reply> {
    if (!isPreflight(raw) && this.#isOpenai(raw)) return this.#openaiRefusal(raw)
    const authorized = this.authorize(raw, isPreflight(raw))
    if (isPreflight(raw)) return { status: 204, bytes: emptyBody, headers: preflightHeaders }
    return authorized === undefined ? throwNotFound() : authorized.then(throwNotFound)
  }

  #isOpenai({ url = '' }: IncomingMessage): boolean {
    return this.#openaiSegments.has(firstSegment(url))
  }

  /** The key may come as a bearer, and the body has the form of that interface. */
  #openaiRefusal(raw: IncomingMessage, allow?: readonly string[]): Reply {
    const problem = this.#openaiProblem(raw, allow)
    const { status, json } = toOpenaiError(
      toErrorReply(problem) ?? { status: 500, json: { detail: problem.message } },
      problem,
    )
    const headers = problem.code === 'method_not_allowed' ? { allow: allow?.join(', ') ?? '' } : {}
    return { status, json, headers }
  }

  #openaiProblem(raw: IncomingMessage, allow: readonly string[] | undefined): Problem {
    try {
      this.#guard.authorize(raw, false, true)
    } catch (error) {
      if (error instanceof Problem) return error
      throw error
    }
    if (allow === undefined) return new Problem('not_found', unknownAddress(raw))
    return new Problem('method_not_allowed', `Method Not Allowed. ${unknownAddress(raw)}`)
  }
}

function unknownAddress({ method, url = '' }: IncomingMessage): string {
  return `Unknown request URL: ${method} ${firstChars(url.split('?', 1)[0] ?? '', 200)}`
}

function throwNotFound(): never {
  throw new Problem('not_found', 'Not Found')
}

/** `/api/tools?x=1` -> `api`, decoded as the router does. */
function firstSegment(url: string): string {
  const [name = ''] = url.replace(/^\/+/, '').split(/[/?#]/, 1)
  return decodePercent(name)?.split('/', 1)[0] ?? name
}

/** Stands for paths without a route of the table when `identify` is called. */
const docsRoute: Route = {
  method: 'GET',
  path: '/docs',
  tag: 'docs',
  summary: 'The API',
  access: 'user',
  responses: {},
}
/** Metrics are for operators. */
export const metricsRoute: Route = {
  ...docsRoute,
  path: '/metrics',
  tag: 'admin',
  access: 'server',
  bearer: true,
}
