import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import { connect as connectSocket } from 'node:net'
import type { Duplex } from 'node:stream'
import { WebSocket, WebSocketServer } from 'ws'

interface BridgeOptions {
  readonly raw: IncomingMessage
  readonly net: Duplex
  readonly head: Buffer
  /** `ws://127.0.0.1:4000/ws` */
  readonly url: string
  /** Of the target, instead of the host and port of the address. */
  readonly socketPath?: string | undefined
  /** Of the handshake with the target. */
  readonly headers: IncomingHttpHeaders
  /** Closes both ends with 1000. */
  readonly signal: AbortSignal | undefined
}

const maxMessageBytes = 16 * 1024 * 1024
/** Above this size of unsent messages the other end is not read. */
const maxUnsentBytes = 1024 * 1024
const handshakeMs = 10_000
const closeMs = 5_000

/**
 * Passes the messages of a client to a target and back. The target is asked first, because it chooses the
 * subprotocol; where it accepts no WebSocket, that of the client is accepted and closed with 1011.
 */
export async function bridgeSocket(bridge: BridgeOptions): Promise<void> {
  const { raw, net, head, signal } = bridge
  const upstream = await connect(bridge)
  if (signal?.aborted || net.destroyed) {
    upstream?.close(1000)
    net.destroy()
    return
  }
  const options = {
    noServer: true,
    clientTracking: false,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    closeTimeout: closeMs,
    handleProtocols: () => upstream?.protocol || false,
  } as const
  const server = new WebSocketServer(options)
  server.handleUpgrade(raw, net, head, (client) => {
    client.on('error', () => {})
    if (upstream === undefined) return client.close(1011, 'The program accepts no WebSocket here')
    pass(upstream, client)
    pass(client, upstream)
    upstream.resume()
    const end = () => {
      client.close(1000)
      upstream.close(1000)
    }
    signal?.addEventListener('abort', end, { once: true })
    client.once('close', () => signal?.removeEventListener('abort', end))
  })
}

/** Undefined: the target does not accept. */
async function connect({ url, socketPath, headers }: BridgeOptions): Promise<WebSocket | undefined> {
  const handshakeOnly = /^(connection|upgrade|host|content-length|transfer-encoding|sec-websocket-.*)$/
  const forwarded = Object.entries(headers).filter(([name]) => !handshakeOnly.test(name))
  const offered = String(headers['sec-websocket-protocol'] ?? '')
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '')
  const options = {
    headers: Object.fromEntries(forwarded) as Record<string, string | string[]>,
    perMessageDeflate: false,
    maxPayload: maxMessageBytes,
    handshakeTimeout: handshakeMs,
    closeTimeout: closeMs,
    ...(socketPath === undefined ? {} : { createConnection: () => connectSocket(socketPath) }),
  }
  try {
    // Throws for names that are no tokens, or twice.
    const socket = new WebSocket(url, offered, options)
    return await new Promise((done) => {
      socket.once('error', () => done(undefined))
      socket.once('open', () => {
        // What comes before the client is connected waits.
        socket.pause()
        done(socket)
      })
    })
  } catch {
    return undefined
  }
}

/** Passes messages and the close of one end on; a slow receiver stops the sender. */
function pass(from: WebSocket, to: WebSocket): void {
  from.on('message', (data, isBinary) => {
    if (to.readyState !== WebSocket.OPEN) return
    to.send(data, { binary: isBinary }, () => {
      if (from.isPaused && to.bufferedAmount < maxUnsentBytes) from.resume()
    })
    if (to.bufferedAmount >= maxUnsentBytes) from.pause()
  })
  from.on('error', () => {})
  from.on('close', (code, reason) => {
    // 1005: no code was sent; 1006, 1015: the connection broke.
    if (code === 1005) to.close()
    else if (code === 1006 || code === 1015) to.close(1011)
    else to.close(code, reason)
    // The answer to the close is only seen by a socket that is read.
    to.resume()
  })
}
