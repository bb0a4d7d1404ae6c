import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Log, type Method, Problem, type Route, type RouteTable } from '@slipway/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import {
  Guard,
  type GuardOptions,
  isPreflight,
  type PageRequest,
  type Pass,
  preflightHeaders,
} from './auth/guard.ts'
import { BasePath } from './core/base-path.ts'
import { ClientGone, isUnread, readBody } from './core/body.ts'
import type { Handlers, Reply, SocketRoute } from './core/handler.ts'
import { type ConnectionLimits, framework } from './core/http-server.ts'
import { headerOf, Incoming } from './core/incoming-request.ts'
import { Inputs } from './core/input-parser.ts'
import { Newest } from './core/lru-map.ts'
import { type Exchange, refusal, type Sent, write } from './core/reply.ts'
import { Paths } from './core/route-paths.ts'
import { bindSocket } from './core/unix-socket.ts'
import { type Relay, Relays } from './proxy/reverse-proxy.ts'
import { type SocketLimits, Sockets } from './sockets/socket-server.ts'
import { Docs } from './static/api-docs.ts'
import type { Site } from './static/site.ts'
import { type Manner, type Observed, Observer, type ObserverOptions } from './telemetry/request-observer.ts'

export interface AppOptions extends GuardOptions, ConnectionLimits, SocketLimits, ObserverOptions {
  /** Served at `/openapi.json` and shown at `/docs`. */
  readonly openapi: object
  readonly sockets?: readonly SocketRoute[]
  readonly relays?: readonly Relay[]
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
  pass?(url: string, header: (name: string) => string | undefined): Pass | Problem | undefined
  /** `/openapi.json` and `/docs` need no caller. */
  readonly openDocs?: true
  readonly log: Log
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
export function app<T extends RouteTable>(routes: T, handlers: Handlers<T>, options: AppOptions): App {
  const made = new App(options)
  for (const [name, route] of Object.entries<Route>(routes)) made.add(route, handlers[name] as Call)
  return made.complete()
}

type Answer = (url: string) => Reply | Promise<Reply>
type Call = (request: Incoming) => Reply | Promise<Reply>
type Serve = (raw: IncomingMessage, res: ServerResponse, params: unknown) => void
/** Undefined: it has been answered already. */
type Produce = (exchange: Served, params: unknown) => Reply | Promise<Reply | undefined>

interface Served extends Exchange, Observed {
  readonly page: PageRequest | undefined
}

export class App {
  readonly #fastify: FastifyInstance
  readonly #options: AppOptions
  readonly #guard: Guard
  readonly #sockets: Sockets
  readonly #relays: Relays
  readonly #basePath: BasePath
  readonly #observer: Observer
  readonly #inputs = new Inputs()
  readonly #known = new Newest<{ readonly serve: Serve; readonly params: unknown }>()
  /** The paths of routes for pages. */
  readonly #pages = new Map<string, Route['pages']>()
  readonly #paths = new Paths()
  /** Of sockets and relays. */
  readonly #otherPaths: readonly string[]
  /** The first names of all paths of the server's own. */
  #names: ReadonlySet<string> | undefined
  /** Signals of requests under way; each aborts when the server stops. */
  readonly #live = new Set<AbortController>()
  #isStopping = false

  constructor(options: AppOptions) {
    this.#options = options
    this.#guard = new Guard(options, { asksCallers: options.identify !== undefined })
    this.#observer = new Observer(options, this.#guard)
    const parts = { guard: this.#guard, log: options.log, observer: this.#observer }
    this.#sockets = new Sockets(options.sockets ?? [], parts, options)
    this.#basePath = new BasePath(options.basePath ?? '')
    this.#relays = new Relays(options.relays ?? [], this.#guard, this.#basePath, {
      ...options,
      traffic: this.#observer.traffic,
    })
    this.#otherPaths = [...(options.sockets ?? []).map(({ path }) => path), ...this.#relays.prefixes]
    const refuse = this.#serve('', () => {
      throw new Problem('bad_request', 'The address is not valid')
    })
    const { rewrite } = this.#basePath
    this.#fastify = framework(options, routed(refuse), (raw, res) => this.#serveKnown(raw, res), rewrite)
    const unknown: Produce = ({ raw }) =>
      this.#refuseMethod(raw) ?? this.#fromSite(raw) ?? this.#refuseUnknown(raw)
    this.#fastify.setNotFoundHandler(routed(this.#serve('', unknown)))
    this.#fastify.server.on('upgrade', (raw, net, head) => {
      rewrite?.(raw)
      if (!this.#relays.upgrade(raw, net, head)) this.#sockets.upgrade(raw, net, head)
    })
  }

  /** Whether callers need a key. */
  get hasKeys(): boolean {
    return this.#guard.hasKeys
  }

  /** Adds a route of a table. */
  add(route: Route, call: Call): void {
    const isOpen = route.open === true
    const identify = isOpen ? undefined : this.#options.identify
    if (route.pages !== undefined) this.#pages.set(route.path, route.pages)
    const serve = (exchange: Served, params: unknown, isUnsent: boolean, caller: unknown) => {
      exchange.caller = caller
      const incoming = this.#incoming(route, exchange, params, isUnsent, caller)
      return incoming instanceof Incoming ? call(incoming) : incoming.then(call)
    }
    const produce: Produce = (exchange, params) => {
      const { raw, res, page } = exchange
      this.#guard.admit(raw, isOpen || identify !== undefined, route.bearer === true, page)
      // Asked now, because a short body arrives, and is complete, while the caller is looked up.
      const isUnsent = isUnread(raw)
      const caller = identify?.(route, (name) => headerOf(raw, name))
      if (!(caller instanceof Promise)) return serve(exchange, params, isUnsent, caller)
      return caller.then((known: unknown) => {
        if (res.destroyed) throw new ClientGone('The client went away')
        return serve(exchange, params, isUnsent, known)
      })
    }
    this.#add(route.method, route.path, produce, route)
  }

  /** Adds what every server answers besides its routes. */
  complete(): this {
    let document: Buffer | undefined
    const docs = new Docs(this.#options.openapi)
    const { metrics, openDocs = false } = this.#options
    const own: Record<string, Answer> = {
      '/openapi.json': () => {
        document ??= Buffer.from(JSON.stringify(this.#options.openapi))
        return { bytes: document }
      },
      // Relative, so that it also leads there from behind a prefix.
      '/redoc': (url) => {
        const location = /\/(\?|$)/.test(url) ? '../docs' : 'docs'
        return { status: 307, bytes: empty, headers: { location } }
      },
      '/docs': (url) => docs.get(url),
      '/docs/*': (url) => docs.get(url),
    }
    for (const [path, answer] of Object.entries(own)) {
      this.#addOwn(path, { asked: docsRoute, isOpen: openDocs }, answer)
    }
    if (metrics !== undefined) {
      const { from, isOpen } = metrics
      this.#addOwn('/metrics', { asked: metricsRoute, isOpen }, async () => {
        return { bytes: Buffer.from(await from.text()), contentType: from.contentType }
      })
    }
    for (const path of this.#paths.all) this.#keepApart(path)
    for (const prefix of this.#relays.prefixes) {
      const pass: Produce = (exchange) => this.#relays.pass(exchange)
      for (const path of [prefix, `${prefix}/*`])
        this.#register(this.#fastify.supportedMethods, path, pass, { manner: {} })
    }
    return this
  }

  /** Binds a Unix socket that only the user of this process may connect to. */
  async openSocket(path: string): Promise<void> {
    await this.#fastify.ready()
    await bindSocket(this.#fastify.server, path)
  }

  /** Binds a port (0: any free one) and resolves with its number. */
  async open(host: string, port: number): Promise<number> {
    await this.#fastify.listen({ host, port, backlog: 2048 })
    const address = this.#fastify.server.address()
    return typeof address === 'object' && address !== null ? address.port : port
  }

  /** Ends streams and sockets, lets other requests finish until `limitMs` have passed, then cuts what is left. */
  async close(limitMs: number): Promise<void> {
    const { server } = this.#fastify
    this.#isStopping = true
    this.#sockets.stop()
    this.#relays.stop()
    const closed = this.#fastify.close()
    for (const controller of this.#live) controller.abort()
    // A connection that has just been answered is idle only after the framework looked for idle ones.
    const idle = setInterval(() => server.closeIdleConnections(), 25)
    const limit = setTimeout(() => {
      server.closeAllConnections()
      this.#sockets.terminate()
      this.#relays.terminate()
    }, limitMs)
    await closed
    clearInterval(idle)
    clearTimeout(limit)
  }

  /** `asked` is the route that `identify` is told of. */
  #addOwn(path: string, to: { readonly asked: Route; readonly isOpen: boolean }, answer: Answer): void {
    this.#add('GET', path, ({ raw }) => {
      const admitted = this.#admitted(raw, to.isOpen, to.asked)
      return admitted === undefined ? answer(raw.url ?? '') : admitted.then(() => answer(raw.url ?? ''))
    })
  }

  #register(method: string[], path: string, produce: Produce, as?: Parameters<Observer['place']>[1]): void {
    const url = path.replace(/\{\w+\*\}$/, '*').replaceAll(/\{(\w+)\}/g, ':$1')
    const rest = /\{(\w+)\*\}$/.exec(path)?.[1]
    const take: Produce =
      rest === undefined ? produce : (exchange, params) => produce(exchange, withRest(params, rest))
    const serve = this.#serve(path, take, as)
    const remember: Serve = (raw, res, params) => {
      if (raw.method === 'GET') this.#known.set(raw.url ?? '', { serve, params })
      serve(raw, res, params)
    }
    this.#fastify.route({ method, url, handler: routed(remember) })
  }

  /** An address that was asked for lately needs no router: it is served as it was then. */
  #serveKnown(raw: IncomingMessage, res: ServerResponse): boolean {
    if (raw.method !== 'GET' || this.#isStopping) return false
    this.#basePath.rewrite?.(raw)
    const known = this.#known.get(raw.url ?? '')
    known?.serve(raw, res, known.params)
    return known !== undefined
  }

  #add(method: Method, path: string, produce: Produce, manner?: Manner): void {
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method]
    this.#paths.add(path, methods)
    this.#register(methods, path, produce, { manner })
  }

  /** Refuses what would reach another path, and answers pages what they ask before a request; the rest the router does not find. */
  #keepApart(path: string): void {
    const methods = this.#paths.of(path)
    const others = this.#pages.has(path)
      ? this.#fastify.supportedMethods.filter((method) => !methods.includes(method))
      : this.#paths.mistakenFor(path)
    if (others.length === 0) return
    const refuse: Produce = ({ raw, page }) => this.#notWith(raw, methods, page)
    this.#register([...others], path, refuse, { isRefused: true })
  }

  /** Undefined when there is no such path, or it has the method and is not found for another reason. */
  #refuseMethod(raw: IncomingMessage): Reply | Promise<Reply> | undefined {
    const methods = this.#paths.methodsAt(raw.url ?? '')
    const isOther = methods?.includes(raw.method ?? '') === false
    return isOther ? this.#notWith(raw, methods) : undefined
  }

  /** A path has no such method. */
  #notWith(
    raw: IncomingMessage,
    methods: readonly string[],
    page: PageRequest | undefined = undefined,
  ): Reply | Promise<Reply> {
    const allow = [...methods, 'OPTIONS'].join(', ')
    const isAsking = raw.method === 'OPTIONS'
    const admitted = this.#admitted(raw, isAsking, docsRoute, page)
    const reply: Reply = isAsking
      ? { status: 204, bytes: empty, headers: { allow, ...preflightHeaders } }
      : { status: 405, json: { detail: 'Method Not Allowed' }, headers: { allow } }
    return admitted === undefined ? reply : admitted.then(() => reply)
  }

  /** The site's answer; undefined when it is not asked: below a name of ours an unknown path is unknown. */
  #fromSite(raw: IncomingMessage): Promise<Reply> | undefined {
    const { site } = this.#options
    const { method, url = '' } = raw
    if (site === undefined || (method !== 'GET' && method !== 'HEAD')) return undefined
    this.#names ??= new Set([...this.#paths.all, ...this.#otherPaths].map(firstName))
    if (this.#names.has(firstName(url))) return undefined
    this.#guard.admit(raw, true)
    return site
      .get(url, (name) => headerOf(raw, name))
      .then((reply) => {
        if (reply === undefined) throw new Problem('not_found', 'Not Found')
        return reply
      })
  }

  /** Without a key nobody learns which paths there are. A preflight has none and must pass, or a page sees no answer. */
  #refuseUnknown(raw: IncomingMessage): Reply | Promise<Reply> {
    const admitted = this.#admitted(raw, isPreflight(raw))
    if (isPreflight(raw)) return { status: 204, bytes: empty, headers: preflightHeaders }
    const refuse = () => {
      throw new Problem('not_found', 'Not Found')
    }
    return admitted === undefined ? refuse() : admitted.then(refuse)
  }

  /** Admits to what is no route of the table; a promise when the caller has to be looked up for it. */
  #admitted(
    raw: IncomingMessage,
    isOpen: boolean,
    route = docsRoute,
    page?: PageRequest,
  ): Promise<unknown> | undefined {
    const { identify } = this.#options
    this.#guard.admit(raw, isOpen || identify !== undefined, route.bearer, page)
    const caller = isOpen ? undefined : identify?.(route, (name) => headerOf(raw, name))
    return caller instanceof Promise ? caller : undefined
  }

  /** What the route wants to know of a request; a promise only when a body has to be read first. */
  #incoming(
    route: Route,
    { raw, res }: Exchange,
    params: unknown,
    isUnsent: boolean,
    caller: unknown,
  ): Incoming | Promise<Incoming> {
    const { maxUploadBytes = 4 * 1024 ** 3, idleMs = 60_000 } = this.#options
    const source = { raw, res, live: this.#live, idleMs, maxUploadBytes, caller }
    const make = (bytes: Buffer) => new Incoming(route, source, this.#inputs.read(route, raw, params, bytes))
    if (!isUnsent || route.stream !== undefined || route.upload === true) return make(empty)
    // A body that the route does not declare is read too, so that the connection can be used again.
    const { maxBodyBytes = 10 * 1024 * 1024, bodyTimeoutMs = 60_000 } = this.#options
    return readBody(raw, maxBodyBytes, bodyTimeoutMs).then(make)
  }

  /** As long as nothing has to be waited for, a request is answered before the next one is looked at. */
  #serve(route: string, produce: Produce, as?: Parameters<Observer['place']>[1]): Serve {
    const { lingerMs = 5_000, stallMs = 30_000 } = this.#options
    const place = this.#observer.place(route, as)
    return (raw, res, params) => {
      const page = this.#pageRequest(route, raw)
      const observed = this.#observer.begin(place, raw, res, params)
      const { span, requestId } = observed
      const headers = this.#guard.headers(raw.headers, page)
      const common = requestId === undefined ? headers : { ...headers, 'x-request-id': requestId }
      const traced = span?.headers ?? untraced
      const exchange: Served = Object.assign(observed, { page, common, traced, lingerMs, stallMs })
      if (span === undefined) this.#answer(exchange, produce)
      else span.within(() => this.#answer(exchange, produce))
    }
  }

  #answer(exchange: Served, produce: Produce): void {
    try {
      this.#guard.enter(exchange.raw)
      const produced = produce(exchange, exchange.params)
      if (produced instanceof Promise || 'chunks' in produced) void this.#finish(exchange, produced)
      else if ('refusal' in produced) this.#fail(exchange, produced.refusal, produced.headers)
      else {
        void write(exchange, produced)
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
    const pass = this.#options.pass?.(raw.url ?? '', (name) => headerOf(raw, name))
    return { pass: pages === 'pass' ? pass : undefined }
  }

  async #finish(exchange: Served, produced: Reply | Promise<Reply | undefined>): Promise<void> {
    try {
      const reply = await produced
      if (reply !== undefined && 'refusal' in reply) return this.#fail(exchange, reply.refusal, reply.headers)
      if (reply !== undefined) await this.#send(exchange, reply)
      this.#observer.end(exchange)
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  async #send(exchange: Served, reply: Sent): Promise<void> {
    exchange.isStream = 'chunks' in reply && reply.contentType === 'text/event-stream'
    const over = exchange.isStream ? this.#observer.traffic.stream() : undefined
    try {
      await write(exchange, reply)
      over?.(exchange.res.destroyed ? 'left' : 'ended')
    } catch (error) {
      over?.('failed')
      throw error
    }
  }

  #fail(exchange: Served, error: unknown, headers: Readonly<Record<string, string>> = {}): void {
    const { res } = exchange
    const isCut = error instanceof ClientGone || (error instanceof Error && error.name === 'AbortError')
    const isStop = isCut && this.#isStopping && refusal(error) === undefined
    const isLeft = isCut && !isStop && res.destroyed
    const cause = isStop ? new Problem('unavailable', 'The server is stopping') : error
    const reply = isLeft ? undefined : this.#observer.refusal(exchange, cause)
    if (reply === undefined || res.headersSent) res.destroy()
    else void write(exchange, { ...reply, headers })
    this.#observer.end(exchange)
  }
}

const untraced: Readonly<Record<string, string>> = {}

/** A function of ours as the router calls it. */
function routed(serve: Serve): (request: FastifyRequest, reply: FastifyReply) => void {
  return ({ raw, params }, reply) => {
    reply.hijack()
    serve(raw, reply.raw, params)
  }
}

/** The router calls the rest of an address `*`. */
function withRest(params: unknown, name: string): unknown {
  const { '*': rest, ...others }: { readonly '*'?: unknown } = { ...Object(params) }
  return { ...others, [name]: rest }
}

/** `/api/tools?x=1` -> `api`, as the router reads it: percent-encoded letters are letters. */
function firstName(url: string): string {
  const [name = ''] = url.replace(/^\/+/, '').split(/[/?#]/, 1)
  try {
    return decodeURIComponent(name).split('/', 1)[0] ?? ''
  } catch {
    return name
  }
}

const empty = Buffer.alloc(0)

/** What `identify` is asked about where there is no route of the table. */
const docsRoute: Route = { method: 'GET', path: '/docs', tag: 'docs', summary: 'The API', responses: {} }
/** What the machine is doing is for those who run it. */
const metricsRoute: Route = { ...docsRoute, path: '/metrics', tag: 'admin', bearer: true }
