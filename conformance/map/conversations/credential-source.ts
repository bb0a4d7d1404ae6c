import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A source of credentials that answers every request in the same way, and remembers them. */
export class CredentialSourceServer implements AsyncDisposable {
  readonly requests: { readonly method: string | undefined; readonly headers: IncomingHttpHeaders }[] = []
  readonly #server

  private constructor(status: number, body: string) {
    this.#server = createServer((request, response) => {
      this.requests.push({ method: request.method, headers: request.headers })
      request.resume()
      response.writeHead(status, { 'content-type': 'application/json' }).end(body)
    })
  }

  static async open(
    status = 200,
    body: unknown = { value: '{}', version: 'v1' },
  ): Promise<CredentialSourceServer> {
    const source = new CredentialSourceServer(status, typeof body === 'string' ? body : JSON.stringify(body))
    await new Promise<void>((done) => source.#server.listen(0, '127.0.0.1', done))
    return source
  }

  get url(): string {
    const { port } = this.#server.address() as AddressInfo // it listens on a port
    return `http://127.0.0.1:${port}/cred`
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((done) => this.#server.close(done))
  }
}
