import type { IncomingMessage, ServerResponse } from 'node:http'
import { type LogFunction, Problem, type Route, type RouteTable } from '@slipway/protocol'
import { LruMap } from '@slipway/shared/collections'
import { type Clock, systemClock } from '@slipway/shared/time'
import { Guard, type GuardOptions } from './auth/guard.ts'
import { acceptConsoleSession } from './console/console-credential.ts'
import { BasePath } from './core/base-path.ts'
import { ClientDisconnectedError, hasUnreadBody, OpenBodies, openBodyBytes, readBody } from './core/body.ts'
import type { Compression } from './core/compress.ts'
import type { Handlers, Reply, SocketRoute } from './core/handler.ts'
import { type ConnectionLimits, HttpServer } from './core/http-server.ts'
import { getHeader, IncomingRequest } from './core/incoming-request.ts'
import { parseInput, type RequestAddress } from './core/parse-input.ts'
import { emptyBody } from './core/reply.ts'
import { Router } from './core/router.ts'
import { type FallbackOptions, FallbackReplies, metricsRoute } from './fallback-replies.ts'
import { type ProxyRoute, ReverseProxy } from './proxy/reverse-proxy.ts'
import type { Readiness } from './readiness.ts'
import {
  type AppExchange,
  type LifecycleOptions,
  type ListenerTraits,
  type ReplyProducer,
  RequestLifecycle,
  type RequestListener,
} from './request-lifecycle.ts'
import { type SocketLimits, SocketServer } from './sockets/socket-server.ts'
import { apiDocsReply } from './static/api-docs.ts'
import { type ObserverOptions, RequestObserver } from './telemetry/request-observer.ts'

export interface AppOptions
  extends GuardOptions,
    ConnectionLimits,
    SocketLimits,
    ObserverOptions,
    LifecycleOptions,
    FallbackOptions {
  /** Served at `/openapi.json` and shown at `/docs`; without it these are paths like others. */
  readonly openapi?: object | undefined
  readonly sockets?: readonly SocketRoute[]
  readonly proxyRoutes?: readonly ProxyRoute[]
  /** The path below which a proxy shows this server (`/slipway`). Requests are served with and without it. */
  readonly basePath?: string | (() => string)
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
  readonly stallMs?: number
  readonly clock?: Clock | undefined
  readonly readiness?: Readiness
}

/** Creates the server of a route table, with one function for each route. `listen` binds it. */
export function createApp<T extends RouteTable>(routes: T, handlers: Handlers<T>, options: AppOptions): App {
  const app = new App(options)
  for (const [name, route] of Object.entries<Route>(routes))
    app.add(name, route, handlers[name] as RouteHandler)
  return app.complete()
}

type RouteHandler = (request: IncomingRequest) => Reply | Promise<Reply>

interface RoutedRequest {
  readonly serve: RequestListener
  readonly address: RequestAddress
}

/** Time for the answers to requests that a stop aborts. */
const maxAnswerMs = 500
const maxRecentRequests = 2_000
/** Longest address that is remembered. */
const maxRecentUrlLength = 2_048
const noParams: RequestAddress = { params: {} }

export class App {
  readonly #options: AppOptions
  readonly #guard: Guard
  readonly #observer: RequestObserver
  readonly #lifecycle: RequestLifecycle
  readonly #fallbacks: FallbackReplies
  readonly #sockets: SocketServer
  readonly #proxy: ReverseProxy
  readonly #basePath: BasePath
  /** Bind it with `listen`. */
  readonly server: HttpServer
  readonly #router = new Router<RequestListener>()
  readonly #openBodies = new OpenBodies()
  /** Addresses of GET that need neither the router nor the parser again. */
  readonly #recentRequests = new LruMap<string, RoutedRequest>({ max: maxRecentRequests })
  readonly #serveUnknownPath: RequestListener
  readonly #serveInvalidAddress: RequestListener

  constructor(options: AppOptions) {
    this.#options = options
    this.#guard = new Guard(options, options.identify !== undefined)
    this.#observer = new RequestObserver(options, this.#guard)
    this.#lifecycle = new RequestLifecycle(options, this.#guard, this.#observer)
    this.#fallbacks = new FallbackReplies(options, this.#guard)
    const { sockets = [], proxyRoutes = [], basePath = '', log } = options
    this.#sockets = new SocketServer(sockets, { guard: this.#guard, log, observer: this.#observer }, options)
    this.#basePath = new BasePath(basePath)
    this.#proxy = new ReverseProxy({
      ...options,
      routes: proxyRoutes,
      guard: this.#guard,
      basePath: this.#basePath,
      traffic: this.#observer.traffic,
    })
    for (const { path } of sockets) this.#fallbacks.reserve(path)
    this.#serveUnknownPath = this.#lifecycle.listener('', ({ raw }) => this.#fallbacks.unknownPath(raw))
    this.#serveInvalidAddress = this.#lifecycle.listener('', () => {
      throw new Problem('bad_request', 'The address is not valid')
    })
    this.server = new HttpServer(options, {
      request: (raw, res) => this.#serve(raw, res),
      upgrade: (raw, net, head) => {
        this.#basePath.rewrite?.(raw)
        this.#acceptConsoleSession(raw, true)
        if (!this.#proxy.upgrade(raw, net, head)) this.#sockets.upgrade(raw, net, head)
      },
    })
  }

  /** Resolves when the server may be closed after the signal has aborted. */
  async drain(signal: AbortSignal): Promise<void> {
    await this.#options.readiness?.drain(signal)
  }

  /** Whether callers need a key. */
  get hasKeys(): boolean {
    return this.#guard.hasKeys
  }

  /** Adds a route of a table. */
  add(name: string, route: Route, handle: RouteHandler): void {
    const isOpen = route.open === true
    if (isOpen && (route.stream !== undefined || route.upload === true))
      throw new Error(`${route.method} ${route.path} takes a body without a limit, so it needs a key`)
    const identify = isOpen ? undefined : this.#options.identify
    if (identify !== undefined && route.access === undefined)
      throw new Error(`${route.method} ${route.path} does not declare whose key opens it`)
    const run = (exchange: AppExchange, hasBody: boolean, caller: unknown) => {
      exchange.caller = caller
      const incoming = this.#createRequest(route, exchange, hasBody, caller)
      const { trail } = exchange
      const serve = (request: IncomingRequest) => {
        trail?.setInput(request)
        return handle(request)
      }
      return incoming instanceof IncomingRequest ? serve(incoming) : incoming.then(serve)
    }
    const produce: ReplyProducer = (exchange) => {
      const { raw, res, page } = exchange
      const scopedKey = this.#guard.authorizeRoute(raw, route, {
        isOpen: isOpen || identify !== undefined,
        params: exchange.address.params,
        page,
      })
      // Read now, because a short body may arrive completely while the caller is looked up.
      const hasBody = hasUnreadBody(raw)
      const caller = scopedKey ?? identify?.(route, (name) => getHeader(raw, name))
      if (!(caller instanceof Promise)) return run(exchange, hasBody, caller)
      return caller.then((known: unknown) => {
        if (res.destroyed) throw new ClientDisconnectedError('The client went away')
        return run(exchange, hasBody, known)
      })
    }
    const methods = route.method === 'GET' ? ['GET', 'HEAD'] : [route.method]
    const traits = { ...route, operation: { name, route } }
    const compression = route.compressed && 'remote'
    this.#register(route.path, methods, produce, { traits, pages: route.pages, compression })
  }

  /** Adds what every server serves besides its routes. */
  complete(): this {
    const { metrics, openapi } = this.#options
    if (openapi !== undefined) this.#addDocs(openapi)
    if (metrics !== undefined) {
      const { registry, isOpen } = metrics
      const render = async () => ({
        bytes: Buffer.from(await registry.render()),
        contentType: registry.contentType,
      })
      this.#addInternal('/metrics', isOpen, render, { route: metricsRoute })
    }
    for (const prefix of this.#proxy.prefixes) {
      for (const path of [prefix || '/', `${prefix}/*`]) {
        this.#fallbacks.reserve(path)
        const forward = this.#forwarding(path)
        this.#router.add(path, [], forward, () => forward)
      }
    }
    return this
  }

  #addDocs(openapi: object): void {
    const { openDocs = false } = this.#options
    let document: { readonly path: string; readonly bytes: Buffer } | undefined
    const getDocument = () => {
      const { path } = this.#basePath
      if (document?.path !== path) {
        const text = JSON.stringify(openapi)
        const located = path === '' ? text : JSON.stringify({ ...JSON.parse(text), servers: [{ url: path }] })
        document = { path, bytes: Buffer.from(located) }
      }
      return { bytes: document.bytes }
    }
    this.#addInternal('/openapi.json', openDocs, getDocument, { compression: 'all' })
    // Relative, so that it works behind a prefix too.
    this.#addInternal('/redoc', openDocs, ({ url = '' }) => {
      const location = /\/(\?|$)/.test(url) ? '../docs' : 'docs'
      return { status: 307, bytes: emptyBody, headers: { location } }
    })
    for (const path of ['/docs', '/docs/*']) {
      const show = (raw: IncomingMessage) => apiDocsReply(raw.url ?? '', (name) => getHeader(raw, name))
      this.#addInternal(path, openDocs, show, { compression: 'all' })
    }
  }

  /**
   * Ends endless streams and sockets, lets other requests finish until `limitMs` have passed, then cuts what
   * is left;
   * shortly before that their signals abort, so that they can still be answered.
   */
  async close(limitMs: number): Promise<void> {
    this.#lifecycle.stop()
    this.#sockets.stop()
    this.#proxy.stop()
    const closed = this.server.close()
    const { clock = systemClock } = this.#options
    const answerMs = Math.min(maxAnswerMs, limitMs / 5)
    const abort = clock.schedule(limitMs - answerMs, () => this.#lifecycle.abortAll())
    const limit = clock.schedule(limitMs, () => {
      this.server.closeAllConnections()
      this.#sockets.terminate()
      this.#proxy.terminate()
    })
    await closed
    abort.cancel()
    limit.cancel()
  }

  #addInternal(
    path: string,
    isOpen: boolean,
    reply: (raw: IncomingMessage) => Reply | Promise<Reply>,
    { route, compression }: { readonly route?: Route; readonly compression?: Compression } = {},
  ): void {
    const produce: ReplyProducer = ({ raw }) => {
      const authorized = this.#fallbacks.authorize(raw, isOpen, route)
      return authorized === undefined ? reply(raw) : authorized.then(() => reply(raw))
    }
    this.#register(path, ['GET', 'HEAD'], produce, { compression })
  }

  #register(path: string, methods: readonly string[], produce: ReplyProducer, traits?: ListenerTraits): void {
    this.#fallbacks.reserve(path, traits?.traits?.errors)
    this.#router.add(path, methods, this.#lifecycle.listener(path, produce, traits), (entry) => {
      // Methods that this server has no route for are those of the program.
      if (this.#proxy.isBelowBridge(path)) return this.#forwarding(path)
      const refuse: ReplyProducer = ({ raw, page }) =>
        this.#fallbacks.methodNotAllowed(raw, entry.methods.keys(), page)
      return this.#lifecycle.listener(path, refuse, { pages: traits?.pages, isRefused: true })
    })
  }

  #forwarding(path: string): RequestListener {
    return this.#lifecycle.listener(path, (exchange) => this.#proxy.forward(exchange), { traits: {} })
  }

  #acceptConsoleSession(raw: IncomingMessage, isUpgrade: boolean): void {
    if (this.#options.isForeignHost?.(raw.headers.host ?? '') !== true) acceptConsoleSession(raw, isUpgrade)
  }

  #serve(raw: IncomingMessage, res: ServerResponse): void {
    this.#basePath.rewrite?.(raw)
    this.#acceptConsoleSession(raw, false)
    if (this.#lifecycle.isStopping || this.#options.readiness?.isDraining)
      res.setHeader('connection', 'close')
    const { method = '', url = '' } = raw
    const recent = method === 'GET' ? this.#recentRequests.get(url) : undefined
    const { serve, address } = recent ?? this.#route(method, url)
    serve(raw, res, address)
  }

  #route(method: string, url: string): RoutedRequest {
    const match = this.#router.find(url)
    if (match === undefined) return { serve: this.#serveUnknownPath, address: noParams }
    if (match === 'invalid') return { serve: this.#serveInvalidAddress, address: noParams }
    const serve = match.entry.methods.get(method) ?? match.entry.fallback
    const routed = { serve, address: { params: match.params } }
    if (method === 'GET' && url.length <= maxRecentUrlLength) this.#recentRequests.set(url, routed)
    return routed
  }

  /** Parses what the route declares; a promise only when a body has to be read first. */
  #createRequest(
    route: Route,
    { raw, res, address }: AppExchange,
    hasBody: boolean,
    caller: unknown,
  ): IncomingRequest | Promise<IncomingRequest> {
    const { maxUploadBytes = 4 * 1024 ** 3, idleMs = 60_000, clock = systemClock } = this.#options
    const source = {
      raw,
      res,
      activeControllers: this.#lifecycle.activeControllers,
      idleMs,
      clock,
      maxUploadBytes,
      caller,
    }
    const create = (bytes: Buffer) =>
      new IncomingRequest(route, source, parseInput(route, raw, address, bytes), bytes)
    if (!hasBody || route.stream !== undefined || route.upload === true) return create(emptyBody)
    // A body that the route does not declare is read too, so that the connection can be reused.
    const { maxBodyBytes = 10 * 1024 * 1024, bodyTimeoutMs: timeoutMs = 60_000 } = this.#options
    const declaredBytes = route.maxBodyBytes ?? (route.open ? openBodyBytes : maxBodyBytes)
    const limits = { limitBytes: Math.min(declaredBytes, maxBodyBytes), timeoutMs, clock }
    return (route.open ? this.#openBodies.read(raw, limits) : readBody(raw, limits)).then(create)
  }
}
