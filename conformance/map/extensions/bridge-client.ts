import { type IncomingHttpHeaders, request } from 'node:http'
import { WebSocket } from 'ws'
import type { Json, MapClient } from '../map-server.ts'

/** The page that opens sessions. */
export const controlOrigin = 'http://localhost:3000'
export const bridgeCookie = 'oh_app_backend_session'

export interface BridgeCall {
  readonly cookie?: string | undefined
  readonly origin?: string | undefined
  /** That of the ingress unless given. */
  readonly host?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
  /** With the session key. */
  readonly hasKey?: boolean
}

export interface BridgeAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly rawHeaders: readonly string[]
  readonly text: string
  readonly json: Json
}

/** Requests and sockets to one server, addressed to the origin of its applications. */
export class BridgeClient {
  readonly #server: MapClient
  readonly ingress: () => string

  constructor(server: MapClient, ingress: () => string) {
    this.#server = server
    this.ingress = ingress
  }

  async call(method: string, path: string, options: BridgeCall = {}): Promise<BridgeAnswer> {
    const { body } = options
    const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
    const headers = { ...this.#headers(options), ...length }
    return await new Promise((done, fail) => {
      // Not as one address, which would resolve the dots of the path.
      const { hostname, port } = new URL(this.#server.url)
      const target = { hostname, port, path: `/app-backends/${path}`, method, headers }
      const outgoing = request(target, (answer) => {
        const chunks: Buffer[] = []
        answer.on('data', (chunk: Buffer) => chunks.push(chunk))
        answer.on('error', fail)
        answer.on('end', () => {
          const { statusCode: status = 0, headers, rawHeaders } = answer
          const text = Buffer.concat(chunks).toString()
          const isJson = String(headers['content-type']).includes('json') && text !== ''
          done({ status, headers, rawHeaders, text, json: isJson ? JSON.parse(text) : {} })
        })
      })
      outgoing.on('error', fail)
      outgoing.end(body)
    })
  }

  /** POST or DELETE of a session, as the page of the control origin does. */
  async session(method: 'POST' | 'DELETE', name: string, options: BridgeCall = {}): Promise<BridgeAnswer> {
    return await this.call(method, `${name}/session`, { origin: controlOrigin, hasKey: true, ...options })
  }

  /** Opens a session; returns the cookie. */
  async open(name: string): Promise<string> {
    const answer = await this.session('POST', name)
    const cookie = /^oh_app_backend_session=[\w-]{20,}(?=;)/.exec(setCookie(answer))?.[0]
    if (answer.status !== 200 || cookie === undefined)
      throw new Error(`no session: ${answer.status} ${answer.text} ${setCookie(answer)}`)
    return cookie
  }

  /** With the cookie and the origin of the ingress unless given. */
  socket(path: string, options: BridgeCall, protocols: readonly string[] = []): BridgeSocket {
    const url = `${this.#server.url.replace(/^http/, 'ws')}/app-backends/${path}`
    const headers = this.#headers({ origin: this.ingress(), ...options })
    return new BridgeSocket(new WebSocket(url, [...protocols], { headers }))
  }

  #headers({ cookie, origin, host, headers, hasKey }: BridgeCall): Record<string, string> {
    return {
      host: host ?? new URL(this.ingress()).host,
      ...(cookie === undefined ? {} : { cookie }),
      ...(origin === undefined ? {} : { origin }),
      ...(hasKey ? this.#server.headers : {}),
      ...headers,
    }
  }
}

export function setCookie({ headers }: BridgeAnswer): string {
  return headers['set-cookie']?.join('\n') ?? ''
}

/** A WebSocket with what it has received. */
export class BridgeSocket {
  readonly messages: string[] = []
  /** The status of a refused handshake, 101 for an accepted one. */
  readonly status: Promise<number>
  readonly closed: Promise<number>
  readonly #socket: WebSocket

  constructor(socket: WebSocket) {
    this.#socket = socket
    socket.on('message', (data) => this.messages.push(String(data)))
    socket.on('error', () => {})
    this.closed = new Promise((done) => socket.on('close', done))
    this.status = new Promise((done) => {
      socket.on('open', () => done(101))
      socket.on('unexpected-response', (_, response) => {
        done(response.statusCode ?? 0)
        response.destroy()
      })
    })
  }

  get protocol(): string {
    return this.#socket.protocol
  }

  /** Sends a text and returns the first message that comes after it. */
  async ask(text: string): Promise<Json> {
    const answer = new Promise<string>((done, fail) => {
      this.#socket.once('message', (data) => done(String(data)))
      this.#socket.once('close', (code) => fail(new Error(`closed with ${code}`)))
    })
    answer.catch(() => {})
    await this.status
    this.#socket.send(text)
    return JSON.parse(await answer)
  }

  close(): void {
    this.#socket.close()
  }
}
