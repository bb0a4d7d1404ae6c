import { type ClientRequest, type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { type Log, Problem } from '@slipway/protocol'
import { type Guard, isPreflight, preflightHeaders } from '../auth/guard.ts'
import type { BasePath } from '../core/base-path.ts'
import { ClientGone } from '../core/body.ts'
import type { Reply } from '../core/handler.ts'
import { refuseRaw } from '../core/http-server.ts'
import { type Exchange, end, statusOfCode } from '../core/reply.ts'
import { reported } from '../telemetry/report-error.ts'
import type { Traffic } from '../telemetry/traffic-metrics.ts'
import { isHopByHop, type Onward, onward, type Passage, passageOf, type Relay } from './proxy-path.ts'

export type { Relay, RelayRequest, RelayTarget } from './proxy-path.ts'

interface RelayOptions {
  readonly log: Log
  readonly traffic: Traffic
  readonly closeMs?: number
}

/** How long a target may take to accept a connection. */
const connectMs = 10_000
const nothing = Buffer.alloc(0)
/** Longest answer of a target that refuses a WebSocket. */
const maxRefusalBytes = 64 * 1024

/** Sends requests and WebSockets on to other servers, and what these answer back, as it comes. */
export class Relays {
  readonly #relays: readonly Relay[]
  readonly #guard: Guard
  readonly #basePath: BasePath
  readonly #options: RelayOptions
  /** Clients' ends of relayed WebSockets. */
  readonly #sockets = new Set<Duplex>()
  /** Answers that go on until somebody ends them. */
  readonly #streams = new Set<ServerResponse>()
  #isStopping = false

  constructor(relays: readonly Relay[], guard: Guard, basePath: BasePath, options: RelayOptions) {
    this.#relays = relays
    this.#guard = guard
    this.#basePath = basePath
    this.#options = options
  }

  get prefixes(): readonly string[] {
    return this.#relays.map(({ prefix }) => prefix)
  }

  /**
   * Passes a request on. Resolves when the answer is over, with undefined; with a reply where we answer ourselves. Rejects with a
   * Problem before the head of an answer; after it the client is cut off when the target is.
   */
  async pass(exchange: Exchange): Promise<Reply | undefined> {
    const { raw } = exchange
    this.#guard.admit(raw, true)
    try {
      const passage = this.#find(raw.url ?? '')
      if (passage === undefined) throw new Problem('not_found', 'Not Found')
      const base = this.#basePath.of(raw)
      const way = await onward(raw, passage, { base, isUpgrade: false })
      this.#options.traffic.relay('request')
      await this.#send(exchange, { ...way, headers: { ...way.headers, ...exchange.traced } })
      return undefined
    } catch (error) {
      // A preflight that is refused hides the refusal of the request itself, which the page could read.
      if (!(error instanceof Problem) || !isPreflight(raw) || exchange.res.headersSent) throw error
      return { status: 204, bytes: nothing, headers: preflightHeaders }
    }
  }

  /** Takes on an upgrade below one of the prefixes, and says whether it is one. */
  upgrade(raw: IncomingMessage, net: Duplex, head: Buffer): boolean {
    try {
      const passage = this.#find(raw.url ?? '')
      if (passage === undefined) return false
      net.on('error', () => net.destroy())
      this.#join(raw, net, head, passage).catch((error: unknown) => this.#refuse(net, error))
    } catch (error) {
      net.on('error', () => net.destroy())
      this.#refuse(net, error)
    }
    return true
  }

  /** Ends WebSockets and event streams; other answers may go on. */
  stop(): void {
    this.#isStopping = true
    for (const net of this.#sockets) net.end()
    for (const res of this.#streams) res.destroy()
  }

  terminate(): void {
    for (const net of this.#sockets) net.destroy()
  }

  #find(url: string): Passage | undefined {
    for (const relay of this.#relays) {
      const passage = passageOf(relay, url)
      if (passage !== undefined) return passage
    }
    return undefined
  }

  async #send(exchange: Exchange, { target, path, headers }: Onward): Promise<void> {
    const { raw, res } = exchange
    const { createProxyServer } = await import('http-proxy-3')
    if (res.destroyed) throw new ClientGone('The client went away')
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
      this.#answer(exchange, answer).then(resolve, reject)
    })
    res.once('close', resolve)
    const { method = '' } = raw
    raw.url = path
    raw.headers = headers
    // Under its own name the library takes the body of a DELETE for empty, and sends its bytes behind the request.
    raw.method = 'POST'
    try {
      const options = { target, method, toProxy: true, selfHandleResponse: true, connectTimeout: connectMs }
      proxy.web(raw, res, options, fail)
    } catch (cause) {
      throw badGateway(cause)
    } finally {
      raw.method = method
    }
    await promise
  }

  async #answer(exchange: Exchange, answer: IncomingMessage): Promise<void> {
    const { raw, res, stallMs } = exchange
    const { statusCode = 0, statusMessage = '' } = answer
    try {
      const close = raw.complete ? [] : ['connection', 'close']
      res.writeHead(statusCode, statusMessage, [...headersOf(answer, ['transfer-encoding']), ...close])
      // Sends the head at once, its bytes as they came (`flushHeaders` would write them as UTF-8).
      res.write(nothing)
    } catch (cause) {
      answer.destroy()
      throw badGateway(cause)
    }
    res.setTimeout(stallMs, () => void (res.writableNeedDrain && res.destroy()))
    if (/^text\/event-stream\b/i.test(answer.headers['content-type'] ?? '')) this.#watch(res)
    try {
      await pipeline(answer, res, { end: false })
    } catch {
      res.destroy()
      return
    }
    raw.unpipe()
    end(exchange)
  }

  #watch(res: ServerResponse): void {
    this.#streams.add(res)
    res.once('close', () => this.#streams.delete(res))
    if (this.#isStopping) res.destroy()
  }

  /** Joins a client and a target: from the answer 101 on, bytes pass as they are. */
  async #join(raw: IncomingMessage, net: Duplex, head: Buffer, passage: Passage): Promise<void> {
    this.#guard.enter(raw)
    this.#guard.admitUpgrade(raw.headers)
    const { 'content-length': length = '0', 'transfer-encoding': coding } = raw.headers
    if (raw.method !== 'GET' || length !== '0' || coding !== undefined) {
      throw new Problem('bad_request', 'A WebSocket is asked for with GET and without a body')
    }
    const look = watch(net)
    this.#sockets.add(net)
    net.once('close', () => this.#sockets.delete(net))
    const { target, path, headers } = await onward(raw, passage, {
      base: this.#basePath.of(raw),
      isUpgrade: true,
    })
    const { createProxyServer } = await import('http-proxy-3')
    if (this.#isStopping) throw new Problem('unavailable', 'The server is stopping')
    if (net.destroyed) return
    let isJoined = false
    // At once, because the library ends the connection right after it has told of a failure.
    const fail = (cause?: unknown) => {
      if (!isJoined) this.#refuse(net, badGateway(cause))
    }
    const proxy = createProxyServer()
    proxy.on('error', fail)
    proxy.on('open', (upstream) => {
      isJoined = true
      this.#options.traffic.relay('socket')
      look.end()
      this.#closeBoth(net, upstream)
    })
    proxy.on('proxyReqWs', (outgoing) => watchRequest(outgoing, net, fail))
    raw.url = path
    raw.headers = headers
    proxy.ws(raw, net, head, { target, toProxy: true, connectTimeout: connectMs }, fail)
  }

  /** When one end is gone, the other has a while to take what is left. */
  #closeBoth(net: Duplex, upstream: Duplex): void {
    const { closeMs = 5_000 } = this.#options
    for (const [one, other] of [
      [net, upstream],
      [upstream, net],
    ] as const) {
      one.once('close', () => {
        const timer = setTimeout(() => other.destroy(), closeMs)
        other.once('close', () => clearTimeout(timer))
        if (other.destroyed) clearTimeout(timer)
      })
    }
  }

  #refuse(net: Duplex, error: unknown): void {
    if (net.destroyed || net.writableEnded) return
    const status = error instanceof Problem ? statusOfCode(error.code) : 500
    refuseRaw(net, `${status} ${STATUS_CODES[status]}`, {
      ...(error instanceof Problem ? { detail: error.message } : {}),
      ...(status < 500 ? {} : { error_id: reported(this.#options.log, 'relay failed', error) }),
    })
  }
}

function badGateway(cause: unknown): Problem {
  const problem = new Problem('bad_gateway', 'The server behind this address does not answer')
  problem.cause = cause
  return problem
}

/** Headers of an answer in their order and spelling, without those of its connection. */
function headersOf({ rawHeaders, headers }: IncomingMessage, without: readonly string[]): string[] {
  const passed: string[] = []
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name = '', value = ''] = rawHeaders.slice(at, at + 2)
    if (!isHopByHop(name, headers.connection) && !without.includes(name.toLowerCase()))
      passed.push(name, value)
  }
  return passed
}

/** Sees a client leave while nothing is read from it. What it sends meanwhile is kept. */
function watch(net: Duplex): { end(): void } {
  const look = () => void net.read(0)
  const leave = () => void net.destroy()
  net.on('readable', look).on('end', leave)
  return { end: () => void net.off('readable', look).off('end', leave) }
}

/** Ends a request with its client, and passes on the answer of a target that makes no WebSocket of it. */
function watchRequest(outgoing: ClientRequest, net: Duplex, fail: (cause?: unknown) => void): void {
  net.once('close', () => outgoing.destroy())
  // In place of the library's own way, which leaves the client waiting when the target breaks off.
  process.nextTick(() => {
    outgoing.removeAllListeners('response')
    outgoing.once('response', (answer) => {
      outgoing.off('close', fail)
      passRefusal(answer, net).catch(fail)
    })
  })
}

/** The answer of a target that makes no WebSocket of the request. It is short, so it is sent when it is whole. */
async function passRefusal(answer: IncomingMessage, net: Duplex): Promise<void> {
  const { statusCode = 0, statusMessage } = answer
  if (statusCode < 200) throw new Error(`The target answered with the status ${statusCode}`)
  const chunks: Buffer[] = []
  let sizeBytes = 0
  for await (const chunk of answer) {
    sizeBytes += chunk.length
    if (sizeBytes > maxRefusalBytes) throw new Error('The refusal of the target is too long')
    chunks.push(chunk)
  }
  const headers = headersOf(answer, ['transfer-encoding', 'content-length'])
  const lines = [`HTTP/1.1 ${statusCode} ${statusMessage}`]
  for (let at = 0; at < headers.length; at += 2) lines.push(`${headers[at]}: ${headers[at + 1]}`)
  lines.push('Connection: close', `Content-Length: ${sizeBytes}`, '', '')
  net.end(Buffer.concat([Buffer.from(lines.join('\r\n'), 'latin1'), ...chunks]), () => net.destroy())
}
