import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { type LogFunction, Problem } from '@slipway/protocol'
import { isRecord, parseJson } from '@slipway/shared/json'
import { type Clock, repeat, systemClock, type Timer } from '@slipway/shared/time'
import { type WebSocket, WebSocketServer } from 'ws'
import { type Guard, keyCheckMs } from '../auth/guard.ts'
import type { SocketRequest, SocketRoute } from '../core/handler.ts'
import { writeRawError } from '../core/http-server.ts'
import { getHeader } from '../core/incoming-request.ts'
import { Router } from '../core/router.ts'
import { getRequestId } from '../telemetry/audit.ts'
import { reportError } from '../telemetry/report-error.ts'
import type { RequestObserver } from '../telemetry/request-observer.ts'
import { OpenSocket } from './open-socket.ts'

export interface SocketLimits {
  /**
   * Most open sockets of one first path value (a conversation); one more is closed with 1013. 2,000 unless
   * given.
   */
  readonly maxSocketsPerKey?: number
  /** Most open sockets; one more is closed with 1013. 20,000 unless given. */
  readonly maxSockets?: number
  /**
   * How long a peer may read nothing before it is closed with 1013 (the reader of a stream: cut off); 30 s
   * unless given.
   */
  readonly stallMs?: number
  /** Most sockets whose key has not arrived; one more is closed with 1013. 1,000 unless given. */
  readonly maxUnauthorizedSockets?: number
  /** Time between pings; 5 s unless given: proxies cut what is silent for 10 or 15 s. */
  readonly pingMs?: number
  /** How long a peer may leave pings unanswered before it is cut off; 40 s unless given. */
  readonly pongMs?: number
  /** How long a peer may take to answer a close before it is cut off; 5 s unless given. */
  readonly closeMs?: number
  /** That of the machine unless given. */
  readonly clock?: Clock | undefined
}

/** How long the first frame with the key may take. */
const authMs = 10_000
const maxMessageBytes = 10 * 1024 * 1024
/** Most bytes that a socket may send before its key has arrived. */
const maxUnauthorizedBytes = 64 * 1024

interface SocketServerDeps {
  readonly guard: Guard
  readonly log: LogFunction
  readonly observer: RequestObserver
}

interface Upgrade {
  /** The request id. */
  readonly id: string
  readonly route: SocketRoute
  readonly request: SocketRequest
  /** Counted by `maxSocketsPerKey`. */
  readonly key: string
  /** False while the key is expected in the first frame. */
  readonly isAuthorized: boolean
  /** The session key that authorized it. */
  readonly sessionKey: string | undefined
}

/** WebSockets from the upgrade to the close: authorization, limits, pings. */
export class SocketServer {
  readonly #router = new Router<SocketRoute>()
  readonly #deps: SocketServerDeps
  readonly #limits: Required<SocketLimits> & { readonly clock: Clock }
  readonly #server: WebSocketServer
  /** Every WebSocket, also before its key has arrived. */
  readonly #all = new Set<WebSocket>()
  /** With the session keys that authorized them. */
  readonly #open = new Map<OpenSocket, string | undefined>()
  readonly #countPerKey = new Map<string, number>()
  #unauthorizedCount = 0
  readonly #timers: readonly Timer[]
  #isStopping = false

  constructor(routes: readonly SocketRoute[], deps: SocketServerDeps, limits: SocketLimits) {
    for (const route of routes) this.#router.add(route.path, [], route, () => route)
    this.#deps = deps
    this.#limits = {
      maxSocketsPerKey: limits.maxSocketsPerKey ?? 2_000,
      maxSockets: limits.maxSockets ?? 20_000,
      stallMs: limits.stallMs ?? 30_000,
      maxUnauthorizedSockets: limits.maxUnauthorizedSockets ?? 1_000,
      pingMs: limits.pingMs ?? 5_000,
      pongMs: limits.pongMs ?? 40_000,
      closeMs: limits.closeMs ?? 5_000,
      clock: limits.clock ?? systemClock,
    }
    const options = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      maxPayload: maxMessageBytes,
      closeTimeout: this.#limits.closeMs,
    }
    this.#server = new WebSocketServer(options)
    const { clock, pingMs } = this.#limits
    this.#timers = [
      repeat(clock, pingMs, () => {
        for (const socket of this.#open.keys()) socket.ping()
      }),
      repeat(clock, keyCheckMs, () => this.#closeEnded()),
    ]
  }

  /** Answers an upgrade request: 101, or an error status before it. */
  upgrade(raw: IncomingMessage, net: Duplex, head: Buffer): void {
    net.on('error', () => net.destroy())
    try {
      const upgrade = this.#authorize(raw)
      this.#server.handleUpgrade(raw, net, head, (ws) => this.#accept(ws, net, upgrade))
    } catch (error) {
      const status = upgradeErrorStatus(error)
      if (status.startsWith('5')) writeRawError(net, status, { error_id: this.#reportError(error) })
      else writeRawError(net, status, error instanceof Error ? { detail: error.message } : {})
    }
  }

  /** Closes all with 1001, so that clients reconnect and resume. */
  stop(): void {
    this.#isStopping = true
    for (const timer of this.#timers) timer.cancel()
    for (const socket of this.#open.keys()) socket.close(1001, stoppingReason)
    for (const ws of this.#all) ws.close(1001, stoppingReason)
  }

  terminate(): void {
    for (const ws of this.#all) ws.terminate()
  }

  /** The checks before the 101, in this order: host and page, path, key, the route. */
  #authorize(raw: IncomingMessage): Upgrade {
    if (this.#isStopping) throw new Problem('unavailable', stoppingReason)
    this.#deps.guard.checkReady(raw)
    this.#deps.guard.authorizeUpgrade(raw)
    const url = URL.parse(raw.url ?? '', 'ws://localhost')
    const match = url === null ? undefined : this.#router.find(url.pathname)
    if (url === null || match === undefined || match === 'invalid')
      throw new Problem('not_found', 'Not Found')
    const { entry, params } = match
    const route = entry.fallback
    const candidate = url.searchParams.get('session_api_key') ?? getHeader(raw, 'x-session-api-key')
    const isAuthorized = !this.#deps.guard.hasKeys || this.#deps.guard.isValidKey(candidate)
    if (!isAuthorized && candidate !== undefined) throw new Problem('forbidden', 'Forbidden')
    url.searchParams.delete('session_api_key')
    const query = Object.fromEntries(url.searchParams)
    const request = { params, query, header: (name: string) => getHeader(raw, name) }
    if (!route.accepts(request)) throw new Problem('forbidden', 'Forbidden')
    const key = Object.values(params)[0] ?? route.path
    const sessionKey = this.#deps.guard.hasKeys ? candidate : undefined
    return { id: getRequestId(raw), route, request, key, isAuthorized, sessionKey }
  }

  #accept(ws: WebSocket, net: Duplex, upgrade: Upgrade): void {
    this.#all.add(ws)
    const closed = this.#deps.observer.traffic.openSocket()
    ws.on('error', () => {})
    ws.on('close', (code) => {
      this.#all.delete(ws)
      closed(code)
    })
    if (this.#all.size > this.#limits.maxSockets) ws.close(1013, 'too many sockets')
    else if (upgrade.isAuthorized) this.#serve(ws, net, upgrade)
    else this.#waitForKey(ws, net, (sessionKey) => this.#serve(ws, net, { ...upgrade, sessionKey }))
  }

  #waitForKey(ws: WebSocket, net: Duplex, onAuthorized: (key: string) => void): void {
    const endLimit = limitBytes(ws, net, maxUnauthorizedBytes)
    if (this.#unauthorizedCount >= this.#limits.maxUnauthorizedSockets) {
      ws.close(1013, 'too many sockets without a key')
      return
    }
    const reject = () => ws.close(...authenticationFailed)
    const timer = this.#limits.clock.schedule(authMs, reject)
    this.#unauthorizedCount++
    const leave = () => {
      timer.cancel()
      this.#unauthorizedCount--
    }
    ws.once('close', leave)
    ws.once('message', (data, isBinary) => {
      const key = isBinary ? undefined : parseAuthFrame(String(data))?.key
      if (typeof key !== 'string' || !this.#deps.guard.isValidKey(key)) return reject()
      ws.off('close', leave)
      leave()
      endLimit()
      onAuthorized(key)
    })
  }

  #serve(ws: WebSocket, net: Duplex, { id, route, request, key, sessionKey }: Upgrade): void {
    const count = (this.#countPerKey.get(key) ?? 0) + 1
    if (count > this.#limits.maxSocketsPerKey) {
      ws.close(1013, 'Too many connections for this conversation')
      return
    }
    this.#countPerKey.set(key, count)
    const failed = (error: unknown) => {
      if (!socket.signal.aborted) socket.close(1011, `Internal error (error_id ${this.#reportError(error)})`)
    }
    const socket = new OpenSocket({
      ws,
      net,
      stallMs: this.#limits.stallMs,
      maxMissedPongs: Math.ceil(this.#limits.pongMs / this.#limits.pingMs),
      clock: this.#limits.clock,
      failed,
    })
    this.#open.set(socket, sessionKey)
    ws.on('message', (data, isBinary) => {
      if (!this.#isStillValid(sessionKey)) return socket.close(...authenticationFailed)
      if (isBinary && !route.takesBinary) return socket.close(1003, 'Only text is understood')
      const text = isBinary ? '' : String(data)
      if (parseAuthFrame(text) !== undefined) return
      this.#deps.observer.socketMessage(route.path, { params: request.params, key: sessionKey, id })
      socket.receive(text)
    })
    ws.once('close', () => {
      this.#open.delete(socket)
      const remaining = (this.#countPerKey.get(key) ?? 1) - 1
      if (remaining === 0) this.#countPerKey.delete(key)
      else this.#countPerKey.set(key, remaining)
    })
    route.serve(socket, request).then(() => socket.close(1000, ''), failed)
  }

  /** Whether a socket that this key has opened may continue; without a key it needs none. */
  #isStillValid(sessionKey: string | undefined): boolean {
    return sessionKey === undefined || this.#deps.guard.isValidKey(sessionKey)
  }

  /** Closes those whose key has ended. */
  #closeEnded(): void {
    const validity = new Map<string | undefined, boolean>()
    for (const [socket, key] of this.#open) {
      const isValid = validity.get(key) ?? this.#isStillValid(key)
      validity.set(key, isValid)
      if (!isValid) socket.close(...authenticationFailed)
    }
  }

  #reportError(error: unknown): string {
    return reportError(this.#deps.log, 'socket failed', error)
  }
}

const stoppingReason = 'server stopping'
const authenticationFailed = [4001, 'Authentication failed'] as const

/** Cuts a connection that sends more bytes. Returns a function that ends this. */
function limitBytes(ws: WebSocket, net: Duplex, maxBytes: number): () => void {
  let isLimited = true
  let receivedBytes = 0
  const count = ({ length }: Buffer) => {
    receivedBytes += length
    // `ws` has handled these bytes already, and may have ended the limit.
    if (isLimited && receivedBytes > maxBytes) ws.terminate()
  }
  net.on('data', count)
  return () => {
    isLimited = false
    net.off('data', count)
  }
}

function upgradeErrorStatus(error: unknown): string {
  if (!(error instanceof Problem)) return '500 Internal Server Error'
  if (error.code === 'not_found') return '404 Not Found'
  if (error.code === 'unavailable') return '503 Service Unavailable'
  return error.code === 'bad_request' ? '400 Bad Request' : '403 Forbidden'
}

/** The key of an object of type auth without other members, which is never a message. */
function parseAuthFrame(text: string): { readonly key: unknown } | undefined {
  if (text.length > 16_384 || !text.includes('"auth"')) return undefined
  const value = parseJson(text)
  if (!isRecord(value)) return undefined
  const { type, session_api_key: key, ...rest } = value
  return type === 'auth' && Object.keys(rest).length === 0 ? { key } : undefined
}
