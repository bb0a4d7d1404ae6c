import { hash } from 'node:crypto'
import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { join } from 'node:path'
import type { LogFunction } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import type { Cluster } from './cluster.ts'
import { apiErrorText } from './cluster.ts'

/** Most systems allow 107 bytes and a zero. */
const maxSocketPathBytes = 100

/** Unix sockets of this machine that lead to ports of Pods through the API server. */
export class Tunnels {
  readonly #cluster: Cluster
  readonly #directory: string
  readonly #log: LogFunction
  readonly #open = new Map<string, Promise<Server>>()

  constructor(cluster: Cluster, directory: string, log: LogFunction) {
    this.#cluster = cluster
    this.#directory = directory
    this.#log = log
    if (Buffer.byteLength(this.#path('', 0)) <= maxSocketPathBytes) return
    throw new Error(`The path of the data directory is too long for sockets: ${directory}`)
  }

  /** The address of a port of a Pod; the same one for the same Pod. */
  async address(pod: string, port: number): Promise<string> {
    const path = this.#path(pod, port)
    const opening = this.#open.get(path) ?? this.#listen(path, pod, port)
    this.#open.set(path, opening)
    await opening.catch((error: unknown) => {
      this.#open.delete(path)
      throw error
    })
    return `http+unix://${encodeURIComponent(path)}`
  }

  async close(pod: string, ports: readonly number[]): Promise<void> {
    for (const port of ports) {
      const path = this.#path(pod, port)
      const opening = this.#open.get(path)
      this.#open.delete(path)
      ;(await opening?.catch(() => undefined))?.close()
    }
  }

  #path(pod: string, port: number): string {
    return join(this.#directory, `${hash('sha256', `${pod}:${port}`).slice(0, 16)}.sock`)
  }

  async #listen(path: string, pod: string, port: number): Promise<Server> {
    await makeDirectory(this.#directory, 0o700)
    await rm(path, { force: true })
    const server = createServer((socket) => {
      socket.on('error', () => socket.destroy())
      this.#cluster.forward(pod, port, socket).catch((error: unknown) => {
        this.#log('debug', 'a connection to a sandbox failed', { pod, port, error: apiErrorText(error) })
        socket.destroy()
      })
    })
    server.listen(path)
    await once(server, 'listening')
    // It keeps no process alive.
    server.unref()
    return server
  }
}
