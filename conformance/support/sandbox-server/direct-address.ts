import { once } from 'node:events'
import { readdir, stat } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'

/**
 * A port on loopback that leads to the Unix socket of a sandbox's agent server, also while no sandbox server
 * runs.
 */
export class DirectAddress implements AsyncDisposable {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()

  private constructor(server: Server, folder: string) {
    this.#server = server
    server.on('connection', (client) => void this.#forward(client, folder))
  }

  /** `root`: the folder of the sandbox. */
  static async open(root: string): Promise<DirectAddress> {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    return new DirectAddress(server, join(root, 'files/reach'))
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async #forward(client: Socket, folder: string): Promise<void> {
    this.#track(client)
    const path = await newestSocket(folder)
    if (path === undefined) return void client.destroy()
    const agent = connect(path)
    this.#track(agent)
    agent.on('close', () => client.destroy())
    client.on('close', () => agent.destroy())
    client.pipe(agent).pipe(client)
  }

  #track(socket: Socket): void {
    this.#sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => this.#sockets.delete(socket))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close()
    for (const socket of this.#sockets) socket.destroy()
    if (this.#server.listening) await once(this.#server, 'close')
  }
}

/** Each start of the processes has its own socket. */
async function newestSocket(folder: string): Promise<string | undefined> {
  const names = (await readdir(folder).catch(() => [])).filter((name) => name.endsWith('.sock'))
  const found = await Promise.all(
    names.map(async (name) => ({ name, mtimeMs: (await stat(join(folder, name))).mtimeMs })),
  )
  const [newest] = found.toSorted((one, other) => other.mtimeMs - one.mtimeMs)
  return newest === undefined ? undefined : join(folder, newest.name)
}
