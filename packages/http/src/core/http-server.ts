import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'

export interface ConnectionLimits {
  /** How long the head of a request may take; 15 s unless given. */
  readonly headersTimeoutMs?: number
  /** Most open connections, sockets included; 25,000 unless given. */
  readonly maxConnections?: number
}

/**
 * The router and its HTTP server. It parses no body and has no hook: `App` does that, at less cost. `refuse` answers an
 * address that cannot be read; `shortcut` may answer before the router looks, and says whether it did.
 */
export function createHttpServer(
  limits: ConnectionLimits,
  refuse: (request: FastifyRequest, reply: FastifyReply) => void,
  serveRecent: (raw: IncomingMessage, res: ServerResponse) => boolean,
  rewriteUrl?: (raw: IncomingMessage) => string,
): FastifyInstance {
  const headersTimeout = limits.headersTimeoutMs ?? 15_000
  const fastify = Fastify({
    exposeHeadRoutes: false,
    return503OnClosing: false,
    requestTimeout: 0,
    ...(rewriteUrl === undefined ? {} : { rewriteUrl }),
    keepAliveTimeout: 65_000,
    routerOptions: { ignoreTrailingSlash: true, maxParamLength: 4096, querystringParser: () => ({}) },
    frameworkErrors: (_error, request, reply) => refuse(request, reply),
    clientErrorHandler: answerClientError,
    http: {
      headersTimeout,
      connectionsCheckingInterval: Math.min(5_000, headersTimeout),
      requireHostHeader: false,
      shouldUpgradeCallback: (request) => request.headers.upgrade?.toLowerCase() === 'websocket',
    },
  })
  for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'QUERY']) {
    fastify.addHttpMethod(method, { hasBody: false, overrideExisting: true })
  }
  fastify.server.maxConnections = limits.maxConnections ?? 25_000
  const routerListeners = fastify.server.listeners('request')
  fastify.server.removeAllListeners('request')
  fastify.server.on('request', (raw, res) => {
    if (!serveRecent(raw, res)) for (const route of routerListeners) route.call(fastify.server, raw, res)
  })
  return fastify
}

const clientErrors: Readonly<Record<string, string>> = {
  ERR_HTTP_REQUEST_TIMEOUT: '408 Request Timeout',
  HPE_HEADER_OVERFLOW: '431 Request Header Fields Too Large',
  HPE_CHUNK_EXTENSIONS_OVERFLOW: '413 Payload Too Large',
}

/** What cannot be read as HTTP is answered once; on a connection that has been answered before it only ends it. */
function answerClientError(
  error: Error & { code?: string },
  socket: Duplex & { bytesWritten?: number },
): void {
  const status = clientErrors[error.code ?? ''] ?? '400 Bad Request'
  if (socket.writable && socket.bytesWritten === 0) writeRawError(socket, status)
  else socket.destroy()
}

/** Answers where there is no `ServerResponse`, and ends the connection. Of the status (`404 Not Found`) the words are the detail. */
export function writeRawError(
  socket: Duplex,
  status: string,
  { detail = status.slice(4), error_id }: { readonly detail?: string; readonly error_id?: string } = {},
): void {
  const body = JSON.stringify({ detail, error_id })
  const head = `HTTP/1.1 ${status}\r\nConnection: close\r\nContent-Type: application/json\r\n`
  socket.end(`${head}Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`, () => socket.destroy())
}
