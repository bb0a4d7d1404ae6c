import { lookup } from 'node:dns/promises'
import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { createServer } from './node-http.ts'
import { listenOnUnixSocket } from './unix-socket.ts'

export interface ConnectionLimits {
  /** How long the head of a request may take; 15 s unless given. */
  readonly headersTimeoutMs?: number
  /** Most open connections, sockets included; 25,000 unless given. */
  readonly maxConnections?: number
}

interface ServerListeners {
  readonly request: (raw: IncomingMessage, res: ServerResponse) => void
  readonly upgrade: (raw: IncomingMessage, net: Duplex, head: Buffer) => void
}

const backlog = 2_048
const keepAliveMs = 65_000

/** One `node:http` server, or one for each address of `localhost`. */
export class HttpServer {
  readonly #limits: ConnectionLimits
  readonly #listeners: ServerListeners
  readonly #main: Server
  readonly #servers: Server[]

  constructor(limits: ConnectionLimits, listeners: ServerListeners) {
    this.#limits = limits
    this.#listeners = listeners
    this.#main = this.#create()
    this.#servers = [this.#main]
  }

  /** Binds a Unix socket that only the user of this process may connect to. */
  async listenOnSocket(path: string): Promise<void> {
    await listenOnUnixSocket(this.#main, path)
  }

  /**
   * Binds a port (0: any free one) and resolves with its number. `localhost` stands for all addresses of the
   * name and for both loopback addresses: clients of some systems try ::1 alone.
   */
  async listenOnPort(host: string, port: number): Promise<number> {
    const bound = await listenOn(this.#main, host, port)
    if (host !== 'localhost') return bound.port
    const named = await lookup(host, { all: true }).catch(() => [])
    for (const address of new Set([...named.map(({ address }) => address), '127.0.0.1', '::1'])) {
      if (address === bound.address) continue
      const server = this.#create()
      const isBound = await listenOn(server, address, bound.port).catch(() => undefined)
      if (isBound !== undefined) this.#servers.push(server)
    }
    return bound.port
  }

  /** Ends idle connections as they become idle. Resolves when all connections have ended. */
  async close(): Promise<void> {
    const closed = this.#servers.map((server) => new Promise((resolve) => server.close(resolve)))
    // A connection becomes idle a moment after its last answer.
    const timer = setInterval(() => this.#servers.forEach((server) => void server.closeIdleConnections()), 25)
    await Promise.all(closed)
    clearInterval(timer)
  }

  closeAllConnections(): void {
    for (const server of this.#servers) server.closeAllConnections()
  }

  #create(): Server {
    const headersTimeout = this.#limits.headersTimeoutMs ?? 15_000
    const server = createServer({
      headersTimeout,
      connectionsCheckingInterval: Math.min(5_000, headersTimeout),
      requestTimeout: 0,
      keepAliveTimeout: keepAliveMs,
      requireHostHeader: false,
      shouldUpgradeCallback: ({ headers }) => headers.upgrade?.toLowerCase() === 'websocket',
    })
    server.maxConnections = this.#limits.maxConnections ?? 25_000
    return server
      .on('request', this.#listeners.request)
      .on('upgrade', this.#listeners.upgrade)
      .on('clientError', answerClientError)
  }
}

async function listenOn(server: Server, host: string, port: number): Promise<AddressInfo> {
  const listening = once(server, 'listening')
  server.listen({ host, port, backlog })
  await listening
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('The server has no port')
  return address
}

const clientErrors: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
}

/** Answers bytes that are no HTTP request; ends a connection that has carried an answer already. */
function answerClientError(
  error: Error & { code?: string },
  socket: Duplex & { bytesWritten?: number },
): void {
  const status = clientErrors[error.code ?? ''] ?? '400 Bad Request'
  if (socket.writable && socket.bytesWritten === 0) writeRawError(socket, status)
  else socket.destroy()
}

/**
 * Answers on a connection without a `ServerResponse` and ends it. The reason phrase of the status (`404 Not
 * Found`) is the default detail.
 */
export function writeRawError(
  socket: Duplex,
  status: string,
  { detail = status.slice(4), error_id }: { readonly detail?: string; readonly error_id?: string } = {},
): void {
  const body = JSON.stringify({ detail, error_id })
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\n`
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy())
}
