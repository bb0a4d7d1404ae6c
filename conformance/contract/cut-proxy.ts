import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'

/**
 * A TCP proxy that cuts every connection after a random number of answered bytes: at once on both sides, or
 * on
 * the client's side without a word to the server, or after it has forwarded nothing for a while.
 */
export class CutProxy implements AsyncDisposable {
  cuts = 0
  readonly #server: Server
  readonly #target: URL
  readonly #sockets = new Set<Socket>()

  private constructor(server: Server, target: URL) {
    this.#server = server
    this.#target = target
    server.on('connection', (client) => this.#forward(client))
  }

  static async open(target: string): Promise<CutProxy> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new CutProxy(server, new URL(target))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  #forward(client: Socket): void {
    const upstream = connect(Number(this.#target.port), this.#target.hostname)
    for (const socket of [client, upstream]) {
      this.#sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => this.#sockets.delete(socket))
    }
    client.on('data', (chunk) => upstream.write(chunk))
    client.on('close', () => upstream.destroy())
    let left = Math.floor(Math.random() ** 3 * 100_000)
    const manner = Math.floor(Math.random() * 3)
    upstream.on('data', (chunk) => {
      client.write(chunk.subarray(0, left))
      left -= chunk.length
      if (left > 0) return
      upstream.pause()
      this.cuts++
      setTimeout(
        () => {
          client.destroy()
          if (manner !== 1) upstream.destroy()
        },
        manner === 2 ? 100 : 0,
      )
    })
    upstream.on('close', () => client.destroy())
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    await once(this.#server, 'close')
  }
}
