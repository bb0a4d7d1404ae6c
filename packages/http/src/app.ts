import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Log, type Method, Problem, type Route, type RouteTable } from '@slipway/protocol'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Guard, type GuardOptions, preflightHeaders } from './auth.ts'
import { ClientGone, isUnread, readBody } from './body.ts'
import { Docs } from './docs.ts'
import { type ConnectionLimits, framework } from './framework.ts'
import type { Handlers, Reply, SocketRoute } from './handler.ts'
import { Incoming } from './incoming.ts'
import { Inputs } from './input.ts'
import { stackOf } from './log.ts'
import { Newest } from './newest.ts'
import { type Exchange, refusal, write } from './reply.ts'
import { type SocketLimits, Sockets } from './sockets.ts'

export interface AppOptions extends GuardOptions, ConnectionLimits, SocketLimits {
  /** Served at `/openapi.json` and shown at `/docs`. */
  readonly openapi: object
  readonly sockets?: readonly SocketRoute[]
  readonly log: Log
  /** Longest JSON body; 10 MiB unless given. */
  readonly maxBodyBytes?: number
  /** How long a JSON body may take; 60 s unless given. */
  readonly bodyTimeoutMs?: number
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

type Call = (request: Incoming) => Reply | Promise<Reply>
type Serve = (raw: IncomingMessage, res: ServerResponse, params: unknown) => void
type Produce = (exchange: Exchange, params: unknown) => Reply | Promise<Reply>

interface Served extends Exchange {
  /** With braces; empty when there is no such route. */
  readonly route: string
  readonly startedAt: number
}

export class App {
  readonly #fastify: FastifyInstance
  readonly #options: AppOptions
  readonly #guard: Guard
  readonly #sockets: Sockets
  readonly #inputs = new Inputs()
  readonly #known = new Newest<{ readonly serve: Serve; readonly params: unknown }>()
  /** The methods of each path. */
  readonly #paths = new Map<string, string[]>()
  /** Signals of requests under way; each aborts when the server stops. */
  readonly #live = new Set<AbortController>()
  #isStopping = false

  constructor(options: AppOptions) {
    this.#options = options
    this.#guard = new Guard(options)
    this.#sockets = new Sockets(options.sockets ?? [], this.#guard, options.log, options)
    const refuse = this.#serve('', () => {
      throw new Problem('bad_request', 'The address is not valid')
    })
    this.#fastify = framework(options, routed(refuse), (raw, res) => this.#serveKnown(raw, res))
    this.#fastify.setNotFoundHandler(routed(this.#serve('', ({ raw }) => this.#refuseUnknown(raw))))
    this.#fastify.server.on('upgrade', (raw, net, head) => this.#sockets.upgrade(raw, net, head))
  }

  /** Whether callers need a key. */
  get hasKeys(): boolean {
    return this.#guard.hasKeys
  }

  /** Adds a route of a table. */
  add(route: Route, call: Call): void {
    const isOpen = route.open === true
    this.#add(route.method, route.path, (exchange, params) => {
      this.#guard.admit(exchange.raw, isOpen)
      const incoming = this.#incoming(route, exchange, params)
      return incoming instanceof Incoming ? call(incoming) : incoming.then(call)
    })
  }

  /** Adds what every server answers besides its routes. */
  complete(): this {
    let document: Buffer | undefined
    const docs = new Docs(this.#options.openapi)
    const own: Record<string, (url: string) => Reply | Promise<Reply>> = {
      '/openapi.json': () => {
        document ??= Buffer.from(JSON.stringify(this.#options.openapi))
        return { bytes: document }
      },
      '/redoc': () => ({ status: 307, bytes: empty, headers: { location: '/docs' } }),
      '/docs': (url) => docs.get(url),
      '/docs/*': (url) => docs.get(url),
    }
    for (const [path, answer] of Object.entries(own)) {
      this.#add('GET', path, ({ raw }) => {
        this.#guard.admit(raw, false)
        return answer(raw.url ?? '')
      })
    }
    for (const [path, methods] of this.#paths) this.#refuseOthers(path, methods)
    return this
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
    const closed = this.#fastify.close()
    for (const controller of this.#live) controller.abort()
    // A connection that has just been answered is idle only after the framework looked for idle ones.
    const idle = setInterval(() => server.closeIdleConnections(), 25)
    const limit = setTimeout(() => {
      server.closeAllConnections()
      this.#sockets.terminate()
    }, limitMs)
    await closed
    clearInterval(idle)
    clearTimeout(limit)
  }

  #register(method: string[], path: string, produce: Produce): void {
    const url = path.replaceAll(/\{(\w+)\}/g, ':$1')
    const serve = this.#serve(path, produce)
    const remember: Serve = (raw, res, params) => {
      if (raw.method === 'GET') this.#known.set(raw.url ?? '', { serve, params })
      serve(raw, res, params)
    }
    this.#fastify.route({ method, url, handler: routed(remember) })
  }

  /** An address that was asked for lately needs no router: it is served as it was then. */
  #serveKnown(raw: IncomingMessage, res: ServerResponse): boolean {
    const known = raw.method === 'GET' && !this.#isStopping ? this.#known.get(raw.url ?? '') : undefined
    known?.serve(raw, res, known.params)
    return known !== undefined
  }

  #add(method: Method, path: string, produce: Produce): void {
    const methods = method === 'GET' ? ['GET', 'HEAD'] : [method]
    this.#paths.set(path, [...(this.#paths.get(path) ?? []), ...methods])
    this.#register(methods, path, produce)
  }

  #refuseOthers(path: string, methods: readonly string[]): void {
    const others = this.#fastify.supportedMethods.filter((method) => !methods.includes(method))
    const allow = [...methods, 'OPTIONS'].join(', ')
    const refuse: Produce = ({ raw }) => {
      this.#guard.admit(raw, raw.method === 'OPTIONS')
      if (raw.method === 'OPTIONS')
        return { status: 204, bytes: empty, headers: { allow, ...preflightHeaders } }
      return { status: 405, json: { detail: 'Method Not Allowed' }, headers: { allow } }
    }
    this.#register(others, path, refuse)
  }

  /** Without a key nobody learns which paths there are. A preflight has none and must pass, or a page sees no answer. */
  #refuseUnknown(raw: IncomingMessage): Reply {
    const isPreflight = raw.method === 'OPTIONS' && raw.headers['access-control-request-method'] !== undefined
    this.#guard.admit(raw, isPreflight)
    if (isPreflight) return { status: 204, bytes: empty, headers: preflightHeaders }
    throw new Problem('not_found', 'Not Found')
  }

  /** What the route wants to know of a request; a promise only when a body has to be read first. */
  #incoming(route: Route, { raw, res }: Exchange, params: unknown): Incoming | Promise<Incoming> {
    const source = { raw, res, live: this.#live, idleMs: this.#options.idleMs ?? 60_000 }
    const make = (bytes: Buffer) => new Incoming(route, source, this.#inputs.read(route, raw, params, bytes))
    if (route.stream !== undefined || !isUnread(raw)) return make(empty)
    // A body that the route does not declare is read too, so that the connection can be used again.
    const { maxBodyBytes = 10 * 1024 * 1024, bodyTimeoutMs = 60_000 } = this.#options
    return readBody(raw, maxBodyBytes, bodyTimeoutMs).then(make)
  }

  /** As long as nothing has to be waited for, a request is answered before the next one is looked at. */
  #serve(route: string, produce: Produce): Serve {
    const { lingerMs = 5_000, stallMs = 30_000 } = this.#options
    return (raw, res, params) => {
      const common = this.#guard.headers(raw.headers)
      const exchange = { raw, res, route, common, lingerMs, stallMs, startedAt: performance.now() }
      try {
        const produced = produce(exchange, params)
        if (produced instanceof Promise || 'chunks' in produced) void this.#finish(exchange, produced)
        else {
          void write(exchange, produced)
          this.#done(exchange)
        }
      } catch (error) {
        this.#fail(exchange, error)
      }
    }
  }

  async #finish(exchange: Served, produced: Reply | Promise<Reply>): Promise<void> {
    try {
      await write(exchange, await produced)
      this.#done(exchange)
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  #done({ raw, res, route, startedAt }: Served): void {
    const duration_ms = performance.now() - startedAt
    this.#options.log('debug', 'request', { method: raw.method, route, status: res.statusCode, duration_ms })
  }

  /** The one place that turns an error into an answer. Our own mistakes are told to the log, not to the caller. */
  #fail(exchange: Served, error: unknown): void {
    const { raw, res, route } = exchange
    const wasCut = error instanceof ClientGone || (error instanceof Error && error.name === 'AbortError')
    let reply = refusal(error)
    if (reply === undefined && wasCut && this.#isStopping)
      reply = refusal(new Problem('unavailable', 'The server is stopping'))
    if (reply === undefined && !(wasCut && res.destroyed)) {
      const error_id = randomBytes(8).toString('hex')
      this.#options.log('error', 'request failed', {
        error_id,
        method: raw.method,
        route,
        error: stackOf(error),
      })
      reply = { status: 500, json: { detail: 'Internal Server Error', error_id } }
    }
    if (reply === undefined || res.headersSent) res.destroy()
    else void write(exchange, reply)
    this.#done(exchange)
  }
}

/** A function of ours as the router calls it. */
function routed(serve: Serve): (request: FastifyRequest, reply: FastifyReply) => void {
  return ({ raw, params }, reply) => {
    reply.hijack()
    serve(raw, reply.raw, params)
  }
}

const empty = Buffer.alloc(0)
