import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * What may happen to a request on its way: it is passed on; its connection is cut before or in the middle of the body; it is taken
 * by the far side and the answer is lost, or cut; somebody else answers; it takes long.
 */
export type Weather =
  | 'clear'
  | 'refuse'
  | 'cut-body'
  | 'lose-answer'
  | 'cut-answer'
  | 'error'
  | 'busy'
  | 'moved'
  | 'slow'

/** A server between two others that does to the requests what `weather` says, each time anew. */
export class FlakyWay implements AsyncDisposable {
  readonly url: string
  /** How often there was which weather. */
  readonly seen = new Map<Weather, number>()
  weather: () => Weather = () => 'clear'
  readonly #server: ReturnType<typeof createServer>
  readonly #to: () => string

  private constructor(server: ReturnType<typeof createServer>, to: () => string) {
    this.#server = server
    this.#to = to
    const { port } = server.address() as AddressInfo
    this.url = `http://127.0.0.1:${port}`
    server.on('request', (incoming, response) => void this.#pass(incoming, response))
  }

  /** `to`: the base address that requests are passed on to. */
  static async open(port: number, to: () => string): Promise<FlakyWay> {
    const server = createServer()
    server.listen(port, '127.0.0.1')
    await once(server, 'listening')
    return new FlakyWay(server, to)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server, 'close')
    this.#server.close()
    this.#server.closeAllConnections()
    await closed
  }

  async #pass(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const weather = this.weather()
    this.seen.set(weather, (this.seen.get(weather) ?? 0) + 1)
    incoming.on('error', () => {})
    response.on('error', () => {})
    switch (weather) {
      case 'refuse':
        return void incoming.socket.destroy()
      case 'error':
        return answer(response, incoming, 500, '<html>no</html>')
      case 'busy':
        return answer(response, incoming, 503, '', { 'retry-after': '1' })
      case 'moved':
        return answer(response, incoming, 302, '', { location: '/elsewhere' })
      case 'slow':
        await sleep(500 + Math.random() * 1_000)
        break
      default:
    }
    this.#forward(incoming, response, weather)
  }

  #forward(incoming: IncomingMessage, response: ServerResponse, weather: Weather): void {
    const { method, headers, url } = incoming
    const far = request(`${this.#to()}${url}`, {
      method: method ?? 'GET',
      headers: { ...headers, connection: 'close' },
    })
    far.on('error', () => incoming.socket.destroy())
    far.on('response', (answered) => {
      if (weather === 'lose-answer') {
        answered.resume()
        return void answered.on('end', () => incoming.socket.destroy())
      }
      response.writeHead(answered.statusCode ?? 502, answered.headers)
      if (weather !== 'cut-answer') return void answered.pipe(response)
      answered.once('data', (chunk: Buffer) => {
        response.write(chunk.subarray(0, 1), () => incoming.socket.destroy())
      })
    })
    if (weather !== 'cut-body') return void incoming.pipe(far)
    // A part of the body is sent on, then both sides hear no more.
    incoming.once('data', (chunk: Buffer) => {
      far.write(chunk.subarray(0, Math.ceil(chunk.length / 2)), () => {
        far.destroy()
        incoming.socket.destroy()
      })
    })
  }
}

function answer(
  response: ServerResponse,
  incoming: IncomingMessage,
  status: number,
  body: string,
  headers: Readonly<Record<string, string>> = {},
): void {
  incoming.resume()
  response.writeHead(status, headers).end(body)
}
