/**
 * Forwards requests and WebSockets to other servers: sandboxes, and programs of applications.
 *
 * Problem: targets are not trusted, may not answer, may answer before the request has ended, and may stream
 * for hours. Clients may leave at any moment. The pages of a target come from this server's address, and must
 * not become pages of this server.
 *
 * Idea: `http-proxy-3` connects and frames; everything that decides is here and in `proxy-path.ts`. Bytes
 * pass through without being read, and each end slows the other.
 *
 * Invariants:
 * - Host and origin are checked before a target is chosen, but for bridges: there `target` alone decides, and
 *   no key, session or origin of this server counts (`forward`, `isBelowBridge`).
 * - Until the head of the answer is written, a failure is an answer of this server (502); after it, the
 *   client is cut off, so that it cannot take half an answer for a whole one (`#forwardResponse`).
 * - An untrusted target gets an opaque origin for its pages (`opaqueOrigin`), and sets nothing for the origin
 *   that it is seen at (`originHeaders`). A redirect of a target behind a bridge is a 502.
 * - Each request has its own connection (`singleUseAgent`), so no answer can reach another request.
 * - A client that leaves ends the request at the target, also before an upgrade (`watchDisconnect`).
 * - 101 is sent when the target has accepted. Until then a WebSocket is refused by an ordinary answer, once
 *   (`#rejectUpgrade`).
 * - When one end of a WebSocket has closed, the other has `closeMs` for what remains (`#closeBoth`).
 * - A stop ends event streams and WebSockets, which have no separate end; other answers may finish.
 * - `raw` is changed for the library (address, headers, method); its method is set back at once.
 *
 * If you change this: pages of a sandbox that act as the user, and requests that hang or are left open at the
 * target. Path traversal, cookies and hop-by-hop headers: `proxy-path.ts`.
 *
 * Decision pages: docs/decisions/0012-libraries-of-the-control-plane.md, 0020-sandbox-networks.md,
 * 0043-application-bridge.md
 */

import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type LogFunction, Problem, serverFailure } from '@slipway/protocol'
import { type Clock, systemClock } from '@slipway/shared/time'
import { type Guard, isPreflight, preflightHeaders } from '../auth/guard.ts'
import type { BasePath } from '../core/base-path.ts'
import { ClientDisconnectedError } from '../core/body.ts'
import type { Reply } from '../core/handler.ts'
import { writeRawError } from '../core/http-server.ts'
import { STATUS_CODES } from '../core/node-http.ts'
import { cutOffStalledReader, type Exchange, emptyBody, endResponse, statusByCode } from '../core/reply.ts'
import { singleUseAgent } from '../core/unix-socket.ts'
import { reportError } from '../telemetry/report-error.ts'
import type { TrafficMetrics } from '../telemetry/traffic-metrics.ts'
import {
  buildForwardedRequest,
  createProxyRequest,
  type ForwardedRequest,
  isHopByHop,
  matchProxyPath,
  type ProxyMatch,
  type ProxyRoute,
} from './proxy-path.ts'
import { bridgeSocket } from './socket-bridge.ts'

export type { ProxyRequest, ProxyRoute, ProxyTarget } from './proxy-path.ts'

interface ReverseProxyOptions {
  readonly routes: readonly ProxyRoute[]
  readonly guard: Guard
  readonly basePath: BasePath
  readonly log: LogFunction
  readonly traffic: TrafficMetrics
  readonly closeMs?: number
  readonly clock?: Clock | undefined
}

/** How long a target may take to accept a connection. */
const connectMs = 10_000
/** Longest reply of a target that refuses a WebSocket. */
const maxRejectionBytes = 64 * 1024

/** Forwards requests and WebSockets to other servers and streams their replies back. */
export class ReverseProxy {
  readonly #options: ReverseProxyOptions
  /** The clients' connections of proxied WebSockets. */
  readonly #sockets = new Set<Duplex>()
  /** Event streams, which have no separate end. */
  readonly #streams = new Set<ServerResponse>()
  #isStopping = false

  constructor(options: ReverseProxyOptions) {
    this.#options = options
  }

  get prefixes(): readonly string[] {
    return this.#options.routes.map(({ prefix }) => prefix)
  }

  /**
   * Forwards a request. Resolves with undefined when the answer has ended, or with a reply of this server.
   * Rejects with a Problem before the head of an answer; after it a broken target connection cuts the client
   * off.
   */
  async forward(exchange: Exchange): Promise<Reply | undefined> {
    const { raw } = exchange
    if (!this.isBelowBridge(raw.url ?? '')) this.#options.guard.authorize(raw, true)
    try {
      const match = this.#find(raw.url ?? '')
      if (match === undefined) throw new Problem('not_found', 'Not Found')
      const answer = match.route.answer?.(createProxyRequest(raw, match, false))
      if (answer !== undefined) return answer
      const base = this.#options.basePath.prefixOf(raw)
      const request = await buildForwardedRequest(raw, match, { base, isUpgrade: false })
      this.#options.traffic.countProxied('request')
      await this.#forwardRequest(exchange, {
        ...request,
        headers: { ...request.headers, ...exchange.traceHeaders },
      })
      return undefined
    } catch (error) {
      // A refused preflight hides the refusal of the request itself, which the page could read.
      if (!(error instanceof Problem) || !isPreflight(raw) || exchange.res.headersSent) throw error
      return { status: 204, bytes: emptyBody, headers: preflightHeaders }
    }
  }

  /** Whether an address is below the prefix of a bridge. */
  isBelowBridge(url: string): boolean {
    return this.#options.routes.some(({ prefix, isBridge }) => {
      const literal = prefix.slice(0, prefix.indexOf('{'))
      return isBridge === true && url.startsWith(literal)
    })
  }

  /** Handles an upgrade below one of the prefixes; false for other paths. */
  upgrade(raw: IncomingMessage, net: Duplex, head: Buffer): boolean {
    try {
      const match = this.#find(raw.url ?? '')
      if (match === undefined) return false
      net.on('error', () => net.destroy())
      const upgrade = match.route.isBridge
        ? this.#bridgeUpgrade(raw, net, head, match)
        : this.#forwardUpgrade(raw, net, head, match)
      upgrade.catch((error: unknown) => this.#rejectUpgrade(raw, net, error))
    } catch (error) {
      net.on('error', () => net.destroy())
      this.#rejectUpgrade(raw, net, error)
    }
    return true
  }

  /** Ends WebSockets and event streams; other answers may finish. */
  stop(): void {
    this.#isStopping = true
    for (const net of this.#sockets) net.end()
    for (const res of this.#streams) res.destroy()
  }

  terminate(): void {
    for (const net of this.#sockets) net.destroy()
  }

  #find(url: string): ProxyMatch | undefined {
    for (const route of this.#options.routes) {
      const match = matchProxyPath(route, url)
      if (match !== undefined) return match
    }
    return undefined
  }

  async #forwardRequest(
    exchange: Exchange,
    { target, path, headers, isUntrusted, isBridge }: ForwardedRequest,
  ): Promise<void> {
    const { raw, res } = exchange
    const { createProxyServer } = await import('http-proxy-3')
    if (res.destroyed) throw new ClientDisconnectedError('The client went away')
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let isAnswered = false
    const fail = (cause?: unknown) => {
      if (!isAnswered) reject(badGateway(cause))
    }
    const proxy = createProxyServer()
    proxy.on('error', fail)
    proxy.on('proxyReq', (outgoing) => outgoing.once('close', fail))
    proxy.on('proxyRes', (answer) => {
      isAnswered = true
      this.#forwardResponse(exchange, answer, { isUntrusted, isBridge }).then(resolve, reject)
    })
    res.once('close', resolve)
    const { method = '' } = raw
    raw.url = path
    raw.headers = headers
    // With the method DELETE the library takes the body for empty and sends its bytes after the request.
    raw.method = 'POST'
    try {
      const agent = target.protocol === 'http:' ? { agent: singleUseAgent } : {}
      const answers = { selfHandleResponse: true, connectTimeout: connectMs }
      proxy.web(raw, res, { target, method, toProxy: true, ...agent, ...answers }, fail)
    } catch (cause) {
      throw badGateway(cause)
    } finally {
      raw.method = method
    }
    await promise
  }

  async #forwardResponse(
    exchange: Exchange,
    answer: IncomingMessage,
    { isUntrusted, isBridge }: Pick<ForwardedRequest, 'isUntrusted' | 'isBridge'>,
  ): Promise<void> {
    const { raw, res } = exchange
    const { statusCode = 0, statusMessage = '' } = answer
    if (isBridge && statusCode >= 300 && statusCode < 400 && statusCode !== 304) {
      answer.destroy()
      throw serverFailure('bad_gateway', '502: Upstream redirect is not allowed')
    }
    try {
      const close = raw.complete ? [] : ['connection', 'close']
      res.writeHead(statusCode, statusMessage, [
        ...forwardableHeaders(answer, [
          'transfer-encoding',
          ...(isUntrusted || isBridge ? originHeaders : []),
        ]),
        ...(isUntrusted ? ['Content-Security-Policy', opaqueOrigin] : []),
        ...close,
      ])
      // Sends the head at once with its raw bytes (`flushHeaders` would write them as UTF-8).
      res.write(emptyBody)
    } catch (cause) {
      answer.destroy()
      throw badGateway(cause)
    }
    cutOffStalledReader(exchange)
    if (/^text\/event-stream\b/i.test(answer.headers['content-type'] ?? '')) this.#trackStream(res)
    try {
      await pipeline(answer, res, { end: false })
    } catch {
      res.destroy()
      return
    }
    raw.unpipe()
    endResponse(exchange)
  }

  #trackStream(res: ServerResponse): void {
    this.#streams.add(res)
    res.once('close', () => this.#streams.delete(res))
    if (this.#isStopping) res.destroy()
  }

  /** Opens a WebSocket to a target and one to the client, whose frames pass to each other. */
  async #bridgeUpgrade(raw: IncomingMessage, net: Duplex, head: Buffer, match: ProxyMatch): Promise<void> {
    this.#options.guard.checkReady(raw)
    const { target, path, headers, signal } = await buildForwardedRequest(raw, match, {
      base: this.#options.basePath.prefixOf(raw),
      isUpgrade: true,
    })
    if (this.#isStopping) throw new Problem('unavailable', 'The server is stopping')
    if (net.destroyed) return
    this.#sockets.add(net)
    net.once('close', () => this.#sockets.delete(net))
    this.#options.traffic.countProxied('socket')
    const { host, port, socketPath } = target
    const url = `ws://${host}:${port}${path}`
    await bridgeSocket({ raw, net, head, url, socketPath, headers, signal })
  }

  /** Connects a client with a target; after the 101 bytes pass unchanged. */
  async #forwardUpgrade(raw: IncomingMessage, net: Duplex, head: Buffer, match: ProxyMatch): Promise<void> {
    this.#options.guard.checkReady(raw)
    this.#options.guard.authorizeUpgrade(raw)
    const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
    if (raw.method !== 'GET' || length !== '0' || coding !== undefined) {
      throw new Problem('bad_request', 'A WebSocket upgrade needs GET without a body')
    }
    const disconnects = watchDisconnect(net)
    this.#sockets.add(net)
    net.once('close', () => this.#sockets.delete(net))
    const { target, path, headers } = await buildForwardedRequest(raw, match, {
      base: this.#options.basePath.prefixOf(raw),
      isUpgrade: true,
    })
    const { createProxyServer } = await import('http-proxy-3')
    if (this.#isStopping) throw new Problem('unavailable', 'The server is stopping')
    if (net.destroyed) return
    let isOpen = false
    // Synchronously, because the library ends the connection right after it reports a failure.
    const fail = (cause?: unknown) => {
      if (!isOpen) this.#rejectUpgrade(raw, net, badGateway(cause))
    }
    const proxy = createProxyServer()
    proxy.on('error', fail)
    proxy.on('open', (upstream) => {
      isOpen = true
      this.#options.traffic.countProxied('socket')
      disconnects.end()
      this.#closeBoth(net, upstream)
    })
    proxy.on('proxyReqWs', (outgoing) => handleRejectedUpgrade(outgoing, net, fail))
    raw.url = path
    raw.headers = headers
    proxy.ws(raw, net, head, { target, toProxy: true, connectTimeout: connectMs }, fail)
  }

  #closeBoth(net: Duplex, upstream: Duplex): void {
    const { closeMs = 5_000, clock = systemClock } = this.#options
    for (const [one, other] of [
      [net, upstream],
      [upstream, net],
    ] as const) {
      one.once('close', () => {
        const timer = clock.schedule(closeMs, () => other.destroy())
        other.once('close', () => timer.cancel())
        if (other.destroyed) timer.cancel()
      })
    }
  }

  #rejectUpgrade(raw: IncomingMessage, net: Duplex, error: unknown): void {
    if (net.destroyed || net.writableEnded) return
    const isRefused = error instanceof Problem && this.isBelowBridge(raw.url ?? '')
    const status = isRefused ? 403 : error instanceof Problem ? statusByCode[error.code] : 500
    writeRawError(net, `${status} ${STATUS_CODES[status]}`, {
      ...(error instanceof Problem ? { detail: error.message } : {}),
      ...(status < 500 ? {} : { error_id: reportError(this.#options.log, 'relay failed', error) }),
    })
  }
}

/** Headers by which an answer changes what the browser does with its whole origin. */
const originHeaders = ['set-cookie', 'set-cookie2', 'service-worker-allowed', 'clear-site-data']
const opaqueOrigin = 'sandbox allow-downloads allow-forms allow-modals allow-popups allow-scripts'

function badGateway(cause: unknown): Problem {
  const problem = new Problem('bad_gateway', 'The server behind this address does not answer')
  problem.cause = cause
  return problem
}

/** The end-to-end headers of an answer, with their order and spelling. */
function forwardableHeaders({ rawHeaders, headers }: IncomingMessage, excluded: readonly string[]): string[] {
  const forwardable: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    if (!isHopByHop(name, headers.connection) && !excluded.includes(name.toLowerCase()))
      forwardable.push(name, value)
  }
  return forwardable
}

/** Detects a disconnect while nothing is read from the client. Received bytes stay buffered. */
function watchDisconnect(net: Duplex): { end(): void } {
  const poll = () => void net.read(0)
  const disconnect = () => void net.destroy()
  net.on('readable', poll).on('end', disconnect)
  return { end: () => void net.off('readable', poll).off('end', disconnect) }
}

/** Ends a request with its client, and forwards the answer of a target that refuses the upgrade. */
function handleRejectedUpgrade(outgoing: ClientRequest, net: Duplex, fail: (cause?: unknown) => void): void {
  net.once('close', () => outgoing.destroy())
  // Replaces the library's handler, which leaves the client waiting when the target disconnects.
  process.nextTick(() => {
    outgoing.removeAllListeners('response')
    outgoing.once('response', (answer) => {
      outgoing.off('close', fail)
      forwardRejection(answer, net).catch(fail)
    })
  })
}

/** Forwards the answer of a target that refuses the upgrade. It is short and is sent when it is complete. */
async function forwardRejection(answer: IncomingMessage, net: Duplex): Promise<void> {
  const { statusCode = 0, statusMessage } = answer
  if (statusCode < 200) throw new Error(`The target answered with the status ${statusCode}`)
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of answer) {
    sizeBytes += chunk.length
    if (sizeBytes > maxRejectionBytes) throw new Error('The refusal of the target is too long')
    chunks.push(chunk)
  }
  const headers = forwardableHeaders(answer, ['transfer-encoding', 'content-length'])
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`]
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`)
  lines.push('Connection: close', `Content-Length: ${sizeBytes}`, '', '')
  net.end(Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), ...chunks]), () => net.destroy())
}
