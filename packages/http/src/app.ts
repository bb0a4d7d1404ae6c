import type { IncomingMessage, ServerResponse } from 'node:http'
import { type LogFunction, type Method, Problem, type Route, type RouteTable } from '@slipway/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  Guard,
  type GuardOptions,
  isPreflight,
  type PageCredential,
  type PageRequest,
  preflightHeaders,
} from './auth/guard.ts'
import { BasePath } from './core/base-path.ts'
import { ClientDisconnected, hasUnreadBody, readBody } from './core/body.ts'
import type { Handlers, Reply, SocketRoute } from './core/handler.ts'
import { type ConnectionLimits, createHttpServer } from './core/http-server.ts'
import { getHeader, IncomingRequest } from './core/incoming-request.ts'
import { InputParser } from './core/input-parser.ts'
import { LruMap } from './core/lru-map.ts'
import { type Exchange, toErrorReply, type WritableReply, writeReply } from './core/reply.ts'
import { RoutePaths } from './core/route-paths.ts'
import { listenOnUnixSocket } from './core/unix-socket.ts'
import { type ProxyRoute, ReverseProxy } from './proxy/reverse-proxy.ts'
import { type SocketLimits, SocketServer } from './sockets/socket-server.ts'
import { ApiDocs } from './static/api-docs.ts'
import type { Site } from './static/site.ts'
import {
  type ObservedRequest,
  type ObserverOptions,
  RequestObserver,
  type RouteTraits,
} from './telemetry/request-observer.ts'

export interface AppOptions extends GuardOptions, ConnectionLimits, SocketLimits, ObserverOptions {
  /** Served at `/openapi.json` and shown at `/docs`. */
  readonly openapi: object
  readonly sockets?: readonly SocketRoute[]
  readonly proxyRoutes?: readonly ProxyRoute[]
  /** Asked for what is below no path of the server's own; its files need no key. */
  readonly site?: Pick<Site, 'get'>
  /** The path below which a proxy shows this server (`/slipway`). Requests are served with and without it. */
  readonly basePath?: string
  /**
   * Tells who calls, before a byte of the body is read; asked for every route that is not `open`, for the description of the API
   * and for unknown paths (with a route of the tag `docs`), instead of a key. The answer is `Request.caller`. Throws a Problem to refuse.
   * WebSockets still ask for one of `keys`.
   */
  identify?(route: Route, header: (name: string) => string | undefined): unknown
  /**
   * What a request to a route with `pages: 'pass'` shows instead of a key, seen in its address and headers; undefined when it shows
   * nothing, a Problem when that is not good. Never throws.
   */
  pageCredential?(
    url: string,
    header: (name: string) => string | undefined,
  ): PageCredential | Problem | undefined
  /** `/openapi.json` and `/docs` need no caller. */
  readonly openDocs?: true
  readonly log: LogFunction
  /** Longest JSON body; 10 MiB unless given. */
  readonly maxBodyBytes?: number
  /** How long a JSON body may take; 60 s unless given. */
  readonly bodyTimeoutMs?: number
  /** Longest file of an upload; 4 GiB unless given. */
  readonly maxUploadBytes?: number
  /** How long the client of a stream body may send nothing; 60 s unless given. */
  readonly idleMs?: number
  /** How long a client that is answered early is still read before it is cut off; 5 s unless given. */
  readonly lingerMs?: number
}

/** The server of a route table, with one function for each route. It does not listen yet: see `listen`. */
export function createApp<T extends RouteTable>(routes: T, handlers: Handlers<T>, options: AppOptions): App {
  const instance = new App(options)
  for (const [name, route] of Object.entries<Route>(routes))
    instance.add(route, handlers[name] as RouteHandler)
  return instance.complete()
}

type InternalHandler = (url: string) => Reply | Promise<Reply>
type RouteHandler = (request: IncomingRequest) => Reply | Promise<Reply>
type RequestListener = (raw: IncomingMessage, res: ServerResponse, params: unknown) => void
/** Undefined: it has been answered already. */
type ReplyProducer = (exchange: AppExchange, params: unknown) => Reply | Promise<Reply | undefined>

interface AppExchange extends Exchange, ObservedRequest {
  readonly page: PageRequest | undefined
}

export class App {
  readonly #fastify: FastifyInstance
  readonly #options: AppOptions
  readonly #guard: Guard
  readonly #sockets: SocketServer
  readonly #proxy: ReverseProxy
  readonly #basePath: BasePath
  readonly #observer: RequestObserver
  readonly #inputs = new InputParser()
  readonly #recentRequests = new LruMap<{ readonly serve: RequestListener; readonly params: unknown }>()
  /** The paths of routes for pages. */
  readonly #pages = new Map<string, Route['pages']>()
  readonly #paths = new RoutePaths()
  /** Of sockets and relays. */
  readonly #socketAndProxyPaths: readonly string[]
  /** The first names of all paths of the server's own. */
  #reservedSegments: ReadonlySet<string> | undefined
  /** Signals of requests under way; each aborts when the server stops. */
  readonly #activeControllers = new Set<AbortController>()
  #isStopping = false

  constructor(options: AppOptions) {
    this.#options = options
    this.#guard = new Guard(options, { asksCallers: options.identify !== undefined })
    this.#observer = new RequestObserver(options, this.#guard)
    const deps = { guard: this.#guard, log: options.log, observer: this.#observer }
    this.#sockets = new SocketServer(options.sockets ?? [], deps, options)
    this.#basePath = new BasePath(options.basePath ?? '')
    this.#proxy = new ReverseProxy(options.proxyRoutes ?? [], this.#guard, this.#basePath, {
      ...options,
      traffic: this.#observer.traffic,
    })
    this.#socketAndProxyPaths = [...(options.sockets ?? []).map(({ path }) => path), ...this.#proxy.prefixes]
    const refuse = this.#serve('', () => {
      throw new Problem('bad_request', 'The address is not valid')
    })
    const { rewrite } = this.#basePath
    this.#fastify = createHttpServer(
      options,
      toFastifyHandler(refuse),
      (raw, res) => this.#serveRecent(raw, res),
      rewrite,
    )
    const produceUnknown: ReplyProducer = ({ raw }) =>
      this.#checkMethod(raw) ?? this.#serveSite(raw) ?? this.#replyNotFound(raw)
    this.#fastify.setNotFoundHandler(toFastifyHandler(this.#serve('', produceUnknown)))
    this.#fastify.server.on('upgrade', (raw, net, head) => {
      rewrite?.(raw)
      if (!this.#proxy.upgrade(raw, net, head)) this.#sockets.upgrade(raw, net, head)
    })
  }

  /** Whether callers need a key. */
  get hasKeys(): boolean {
    return this.#guard.hasKeys
  }

  /** Adds a route of a table. */
  add(route: Route, call: RouteHandler): void {
    const isOpen = route.open === true
    const identify = isOpen ? undefined : this.#options.identify
    if (route.pages !== undefined) this.#pages.set(route.path, route.pages)
    const serve = (exchange: AppExchange, params: unknown, hasBody: boolean, caller: unknown) => {
      exchange.caller = caller
      const incoming = this.#createRequest(route, exchange, params, hasBody, caller)
      return incoming instanceof IncomingRequest ? call(incoming) : incoming.then(call)
    }
    const produce: ReplyProducer = (exchange, params) => {
      const { raw, res, page } = exchange
      this.#guard.authorize(raw, isOpen || identify !== undefined, route.bearer === true, page)
      // Asked now, because a short body arrives, and is complete, while the caller is looked up.
      const hasBody = hasUnreadBody(raw)
      const caller = identify?.(route, (name) => getHeader(raw, name))
      if (!(caller instanceof Promise)) return serve(exchange, params, hasBody, caller)
      return caller.then((known: unknown) => {
        if (res.destroyed) throw new ClientDisconnected('The client went away')
        return serve(exchange, params, hasBody, known)
      })
    }
    this.#add(route.method, route.path, produce, route)
  }

  /** Adds what every server answers besides its routes. */
  complete(): this {
    let document: Buffer | undefined
    const docs = new ApiDocs(this.#options.openapi)
    const { metrics, openDocs = false } = this.#options
    const internalRoutes: Record<string, InternalHandler> = {
      '/openapi.json': () => {
        document ??= Buffer.from(JSON.stringify(this.#options.openapi))
        return { bytes: document }
      },
      // Relative, so that it also leads there from behind a prefix.
      '/redoc': (url) => {
        const location = /\/(\?|$)/.test(url) ? '../docs' : 'docs'
        return { status: 307, bytes: emptyBody, headers: { location } }
      },
      '/docs': (url) => docs.get(url),
      '/docs/*': (url) => docs.get(url),
    }
    for (const [path, answer] of Object.entries(internalRoutes)) {
      this.#addInternal(path, { asked: docsRoute, isOpen: openDocs }, answer)
    }
    if (metrics !== undefined) {
      const { registry, isOpen } = metrics
      this.#addInternal('/metrics', { asked: metricsRoute, isOpen }, async () => {
        return { bytes: Buffer.from(await registry.render()), contentType: registry.contentType }
      })
    }
    for (const path of this.#paths.list) this.#rejectOtherMethods(path)
    for (const prefix of this.#proxy.prefixes) {
      const pass: ReplyProducer = (exchange) => this.#proxy.forward(exchange)
      for (const path of [prefix, `${prefix}/*`])
        this.#register(this.#fastify.supportedMethods, path, pass, { manner: {} })
    }
    return this
  }

  /** Binds a Unix socket that only the user of this process may connect to. */
  async listenOnSocket(path: string): Promise<void> {
    await this.#fastify.ready()
    await listenOnUnixSocket(this.#fastify.server, path)
  }

  /** Binds a port (0: any free one) and resolves with its number. */
  async listenOnPort(host: string, port: number): Promise<number> {
    await this.#fastify.listen({ host, port, backlog: 2048 })
    const address = this.#fastify.server.address()
    return typeof address === 'object' && address !== null ? address.port : port
  }

  /** Ends streams and sockets, lets other requests finish until `limitMs` have passed, then cuts what is left. */
  async close(limitMs: number): Promise<void> {
    const { server } = this.#fastify
    this.#isStopping = true
    this.#sockets.stop()
    this.#proxy.stop()
    const closed = this.#fastify.close()
    for (const controller of this.#activeControllers) controller.abort()
    // A connection that has just been answered is idle only after the framework looked for idle ones.
    const idle = setInterval(() => server.closeIdleConnections(), 25)
    const limit = setTimeout(() => {
      server.closeAllConnections()
      this.#sockets.terminate()
      this.#proxy.terminate()
    }, limitMs)
    await closed
    clearInterval(idle)
    clearTimeout(limit)
  }

  /** `asked` is the route that `identify` is told of. */
  #addInternal(
    path: string,
    to: { readonly asked: Route; readonly isOpen: boolean },
    answer: InternalHandler,
  ): void {
    this.#add('GET', path, ({ raw }) => {
      const authorized = this.#authorize(raw, to.isOpen, to.asked)
      return authorized === undefined ? answer(raw.url ?? '') : authorized.then(() => answer(raw.url ?? ''))
    })
  }

  #register(
    method: string[],
    path: string,
    produce: ReplyProducer,
    traits?: Parameters<RequestObserver['observeRoute']>[1],
  ): void {
    const url = path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')
    const rest = /\{(\w+)\*\}$/.exec(path)?.[1]
    const produceWithRest: ReplyProducer =
      rest === undefined ? produce : (exchange, params) => produce(exchange, renameWildcard(params, rest))
    const serve = this.#serve(path, produceWithRest, traits)
    const remember: RequestListener = (raw, res, params) => {
      if (raw.method === 'GET') this.#recentRequests.set(raw.url ?? '', { serve, params })
      serve(raw, res, params)
    }
    this.#fastify.route({ method, url, handler: toFastifyHandler(remember) })
  }

  /** An address that was asked for lately needs no router: it is served as it was then. */
  #serveRecent(raw: IncomingMessage, res: ServerResponse): boolean {
    if (raw.method !== 'GET' || this.#isStopping) return false
    this.#basePath.rewrite?.(raw)
    const recent = this.#recentRequests.get(raw.url ?? '')
    recent?.serve(raw, res, recent.params)
    return recent !== undefined
  }

  #add(method: Method, path: string, produce: ReplyProducer, traits?: RouteTraits): void {
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method]
    this.#paths.add(path, methods)
    this.#register(methods, path, produce, { manner: traits })
  }

  /** Refuses what would reach another path, and answers pages what they ask before a request; the rest the router does not find. */
  #rejectOtherMethods(path: string): void {
    const methods = this.#paths.methodsOfPath(path)
    const others = this.#pages.has(path)
      ? this.#fastify.supportedMethods.filter((method) => !methods.includes(method))
      : this.#paths.conflictingMethods(path)
    if (others.length === 0) return
    const refuse: ReplyProducer = ({ raw, page }) => this.#replyMethodNotAllowed(raw, methods, page)
    this.#register([...others], path, refuse, { isRefused: true })
  }

  /** Undefined when there is no such path, or it has the method and is not found for another reason. */
  #checkMethod(raw: IncomingMessage): Reply | Promise<Reply> | undefined {
    const methods = this.#paths.methodsForUrl(raw.url ?? '')
    const isOther = methods?.includes(raw.method ?? '') === false
    return isOther ? this.#replyMethodNotAllowed(raw, methods) : undefined
  }

  /** A path has no such method. */
  #replyMethodNotAllowed(
    raw: IncomingMessage,
    methods: readonly string[],
    page: PageRequest | undefined = undefined,
  ): Reply | Promise<Reply> {
    const allow = [...methods, 'OPTIONS'].join(', ')
    const isAsking = raw.method === 'OPTIONS'
    const authorized = this.#authorize(raw, isAsking, docsRoute, page)
    const reply: Reply = isAsking
      ? { status: 204, bytes: emptyBody, headers: { allow, ...preflightHeaders } }
      : { status: 405, json: { detail: 'Method Not Allowed' }, headers: { allow } }
    return authorized === undefined ? reply : authorized.then(() => reply)
  }

  /** The site's answer; undefined when it is not asked: below a name of ours an unknown path is unknown. */
  #serveSite(raw: IncomingMessage): Promise<Reply> | undefined {
    const { site } = this.#options
    const { method, url = '' } = raw
    if (site === undefined || (method !== 'GET' && method !== 'HEAD')) return undefined
    this.#reservedSegments ??= new Set([...this.#paths.list, ...this.#socketAndProxyPaths].map(firstSegment))
    if (this.#reservedSegments.has(firstSegment(url))) return undefined
    this.#guard.authorize(raw, true)
    return site
      .get(url, (name) => getHeader(raw, name))
      .then((reply) => {
        if (reply === undefined) throw new Problem('not_found', 'Not Found')
        return reply
      })
  }

  /** Without a key nobody learns which paths there are. A preflight has none and must pass, or a page sees no answer. */
  #replyNotFound(raw: IncomingMessage): Reply | Promise<Reply> {
    const authorized = this.#authorize(raw, isPreflight(raw))
    if (isPreflight(raw)) return { status: 204, bytes: emptyBody, headers: preflightHeaders }
    const throwNotFound = () => {
      throw new Problem('not_found', 'Not Found')
    }
    return authorized === undefined ? throwNotFound() : authorized.then(throwNotFound)
  }

  /** Admits to what is no route of the table; a promise when the caller has to be looked up for it. */
  #authorize(
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

  /** What the route wants to know of a request; a promise only when a body has to be read first. */
  #createRequest(
    route: Route,
    { raw, res }: Exchange,
    params: unknown,
    hasBody: boolean,
    caller: unknown,
  ): IncomingRequest | Promise<IncomingRequest> {
    const { maxUploadBytes = 4 * 1024 ** 3, idleMs = 60_000 } = this.#options
    const source = { raw, res, activeControllers: this.#activeControllers, idleMs, maxUploadBytes, caller }
    const make = (bytes: Buffer) =>
      new IncomingRequest(route, source, this.#inputs.parse(route, raw, params, bytes))
    if (!hasBody || route.stream !== undefined || route.upload === true) return make(emptyBody)
    // A body that the route does not declare is read too, so that the connection can be used again.
    const { maxBodyBytes = 10 * 1024 * 1024, bodyTimeoutMs = 60_000 } = this.#options
    return readBody(raw, maxBodyBytes, bodyTimeoutMs).then(make)
  }

  /** As long as nothing has to be waited for, a request is answered before the next one is looked at. */
  #serve(
    route: string,
    produce: ReplyProducer,
    traits?: Parameters<RequestObserver['observeRoute']>[1],
  ): RequestListener {
    const { lingerMs = 5_000, stallMs = 30_000 } = this.#options
    const observedRoute = this.#observer.observeRoute(route, traits)
    return (raw, res, params) => {
      const page = this.#pageRequest(route, raw)
      const observed = this.#observer.begin(observedRoute, raw, res, params)
      const { span, requestId } = observed
      const headers = this.#guard.corsHeaders(raw.headers, page)
      const commonHeaders = requestId === undefined ? headers : { ...headers, 'x-request-id': requestId }
      const traceHeaders = span?.headers ?? noTraceHeaders
      const exchange: AppExchange = Object.assign(observed, {
        page,
        commonHeaders,
        traceHeaders,
        lingerMs,
        stallMs,
      })
      if (span === undefined) this.#answer(exchange, produce)
      else span.run(() => this.#answer(exchange, produce))
    }
  }

  #answer(exchange: AppExchange, produce: ReplyProducer): void {
    try {
      this.#guard.checkReady(exchange.raw)
      const produced = produce(exchange, exchange.params)
      if (produced instanceof Promise || 'chunks' in produced) void this.#finish(exchange, produced)
      else if ('refusal' in produced) this.#fail(exchange, produced.refusal, produced.headers)
      else {
        void writeReply(exchange, produced)
        this.#observer.end(exchange)
      }
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  /** Undefined for a route that is not for pages. */
  #pageRequest(route: string, raw: IncomingMessage): PageRequest | undefined {
    const pages = this.#pages.get(route)
    if (pages === undefined) return undefined
    const credential = this.#options.pageCredential?.(raw.url ?? '', (name) => getHeader(raw, name))
    return { credential: pages === 'pass' ? credential : undefined }
  }

  async #finish(exchange: AppExchange, produced: Reply | Promise<Reply | undefined>): Promise<void> {
    try {
      const reply = await produced
      if (reply !== undefined && 'refusal' in reply) return this.#fail(exchange, reply.refusal, reply.headers)
      if (reply !== undefined) await this.#send(exchange, reply)
      this.#observer.end(exchange)
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  async #send(exchange: AppExchange, reply: WritableReply): Promise<void> {
    exchange.isStream = 'chunks' in reply && reply.contentType === 'text/event-stream'
    const over = exchange.isStream ? this.#observer.traffic.openStream() : undefined
    try {
      await writeReply(exchange, reply)
      over?.(exchange.res.destroyed ? 'left' : 'ended')
    } catch (error) {
      over?.('failed')
      throw error
    }
  }

  #fail(exchange: AppExchange, error: unknown, headers: Readonly<Record<string, string>> = {}): void {
    const { res } = exchange
    const isAborted =
      error instanceof ClientDisconnected || (error instanceof Error && error.name === 'AbortError')
    const isStop = isAborted && this.#isStopping && toErrorReply(error) === undefined
    const isDisconnected = isAborted && !isStop && res.destroyed
    const cause = isStop ? new Problem('unavailable', 'The server is stopping') : error
    const reply = isDisconnected ? undefined : this.#observer.errorReply(exchange, cause)
    if (reply === undefined || res.headersSent) res.destroy()
    else void writeReply(exchange, { ...reply, headers })
    this.#observer.end(exchange)
  }
}

const noTraceHeaders: Readonly<Record<string, string>> = {}

/** A function of ours as the router calls it. */
function toFastifyHandler(serve: RequestListener): (request: FastifyRequest, reply: FastifyReply) => void {
  return ({ raw, params }, reply) => {
    reply.hijack()
    serve(raw, reply.raw, params)
  }
}

/** The router calls the rest of an address `*`. */
function renameWildcard(params: unknown, name: string): unknown {
  const { '*': rest, ...others }: { readonly '*'?: unknown } = { ...Object(params) }
  return { ...others, [name]: rest }
}

/** `/api/tools?x=1` -> `api`, as the router reads it: percent-encoded letters are letters. */
function firstSegment(url: string): string {
  const [name = ''] = url.replace(/^\/+/, '').split(/[/?#]/, 1)
  try {
    return decodeURIComponent(name).split('/', 1)[0] ?? ''
  } catch {
    return name
  }
}

const emptyBody = Buffer.alloc(0)

/** What `identify` is asked about where there is no route of the table. */
const docsRoute: Route = { method: 'GET', path: '/docs', tag: 'docs', summary: 'The API', responses: {} }
/** What the machine is doing is for those who run it. */
const metricsRoute: Route = { ...docsRoute, path: '/metrics', tag: 'admin', bearer: true }
