import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * What happens to a request: it is forwarded; its connection is cut before or within the body; the target
 * handles it and the reply is lost or cut; another server replies; it is delayed.
 */
export type Fault =
  | 'clear'
  | 'refuse'
  | 'cut-body'
  | 'lose-answer'
  | 'cut-answer'
  | 'error'
  | 'busy'
  | 'moved'
  | 'slow'

/** A proxy that injects a fault, selected by `weather`, into each request. */
export class FaultProxy implements AsyncDisposable {
  readonly url: string
  /** How often each fault was injected. */
  readonly faultCounts = new Map<Fault, number>()
  nextFault: () => Fault = () => 'clear'
  readonly #server: ReturnType<typeof createServer>
  readonly #targetUrl: () => string

  private constructor(server: ReturnType<typeof createServer>, targetUrl: () => string) {
    this.#server = server
    this.#targetUrl = targetUrl
    const { port } = server.address() as AddressInfo
    this.url = `http://127.0.0.1:${port}`
    server.on('request', (incoming, response) => void this.#handle(incoming, response))
  }

  /** `to`: the base address of the target. */
  static async open(port: number, targetUrl: () => string): Promise<FaultProxy> {
    const server = createServer()
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return new FaultProxy(server, targetUrl)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #handle(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const fault = this.nextFault()
    this.faultCounts.set(fault, (this.faultCounts.get(fault) ?? 0) + 1)
    incoming.on('error', () => {})
    response.on('error', () => {})
    switch (fault) {
      case 'refuse':
        return void incoming.socket.destroy()
      case 'error':
        return respond(response, incoming, 500, '<html>no</html>')
      case 'busy':
        return respond(response, incoming, 503, '', { 'retry-after': '1' })
      case 'moved':
        return respond(response, incoming, 302, '', { location: '/elsewhere' })
      case 'slow':
        await sleep(500 + Math.random() * 1_000)
        break
      default:
    }
    this.#forward(incoming, response, fault)
  }

  #forward(incoming: IncomingMessage, response: ServerResponse, fault: Fault): void {
    const { method, headers, url } = incoming
    const upstream = request(`${this.#targetUrl()}${url}`, {
      method: method ?? 'GET',
      headers: { ...headers, connection: 'close' },
    })
    upstream.on('error', () => incoming.socket.destroy())
    upstream.on('response', (upstreamResponse) => {
      if (fault === 'lose-answer') {
        upstreamResponse.resume()
        return void upstreamResponse.on('end', () => incoming.socket.destroy())
      }
      response.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers)
      if (fault !== 'cut-answer') return void upstreamResponse.pipe(response)
      upstreamResponse.once('data', (chunk: Buffer) => {
        response.write(chunk.subarray(0, 1), () => incoming.socket.destroy())
      })
    })
    if (fault !== 'cut-body') return void incoming.pipe(upstream)
    // Forwards a part of the body, then cuts both connections.
    incoming.once('data', (chunk: Buffer) => {
      upstream.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => {
        upstream.destroy()
        incoming.socket.destroy()
      })
    })
  }
}

function respond(
  response: ServerResponse,
  incoming: IncomingMessage,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  incoming.resume()
  response.writeHead(status, headers).end(body)
}
