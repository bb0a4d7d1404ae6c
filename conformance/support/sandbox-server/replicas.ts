import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { commandMain } from '@slipway/shared/process/testing'
import { compiledCode } from '../compiled-code.ts'
import { freePort } from '../free-port.ts'
import { createTestDatabase, type TestDatabase } from '../test-database.ts'
import { cleanUpProcesses, listProcessResources } from './process-resources.ts'

const key = 'sk-conformance-of-the-administrator'
const patienceMs = 180_000

interface Replica {
  readonly port: number
  child: ChildProcess | undefined
}

/**
 * Sandbox servers on one database and one machine, behind a proxy that gives each connection to the next of
 * them. Sandboxes are ordinary processes.
 */
export class Replicas implements AsyncDisposable {
  readonly data: string
  readonly database: TestDatabase
  readonly #replicas: readonly Replica[]
  readonly #proxy: Awaited<ReturnType<typeof startProxy>>
  readonly #env: Readonly<Record<string, string>>
  #output = ''

  private constructor(
    data: string,
    database: TestDatabase,
    replicas: readonly Replica[],
    proxy: Awaited<ReturnType<typeof startProxy>>,
    env: Readonly<Record<string, string>>,
  ) {
    this.data = data
    this.database = database
    this.#replicas = replicas
    this.#proxy = proxy
    this.#env = env
  }

  static async open(count: number, env: Readonly<Record<string, string>> = {}): Promise<Replicas> {
    const data = await realpath(await mkdtemp(join(tmpdir(), 'slipway-replicas-')))
    const ports = await Promise.all(Array.from({ length: count }, () => freePort()))
    const replicas = ports.map((port) => ({ port, child: undefined }))
    const opened = new Replicas(data, await createTestDatabase(), replicas, await startProxy(ports), env)
    await Promise.all(replicas.map((_, index) => opened.start(index)))
    return opened
  }

  get count(): number {
    return this.#replicas.length
  }

  output(): string {
    return this.#output
  }

  async start(index: number): Promise<void> {
    const replica = this.#replica(index)
    const args = ['--json', 'sandbox-server', '--port', String(replica.port), '--data', this.data]
    const child = spawn(process.execPath, [commandMain, ...args, '--database', this.database.url], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        PATH: process.env.PATH,
        HOME: this.data,
        ...compiledCode,
        SLIPWAY_API_KEY: key,
        SLIPWAY_ISOLATION: 'none',
        SLIPWAY_SANDBOX_NETWORK: 'shared',
        SLIPWAY_SECRET_KEY: 'the secret key of all replicas',
        SLIPWAY_LEASE_SECONDS: '4',
        SLIPWAY_RECONCILE_SECONDS: '2',
        ...this.#env,
      },
    })
    replica.child = child
    const printed = new Promise<void>((resolve) => child.stdout?.once('data', () => resolve()))
    child.stderr?.on('data', (chunk) => {
      this.#output += `${index}: ${chunk}`
    })
    const exited = once(child, 'exit').then(([code, signal]) => {
      if (signal === null) throw new Error(`a replica ended with ${code}: ${this.#output.slice(-4_000)}`)
    })
    await Promise.race([printed, exited])
    exited.catch(() => {})
  }

  async kill(index: number, signal: NodeJS.Signals = 'SIGKILL'): Promise<void> {
    const { child } = this.#replica(index)
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill(signal)
    await exit
  }

  /** Sends a signal that does not end it. */
  signal(index: number, name: NodeJS.Signals): void {
    this.#replica(index).child?.kill(name)
  }

  /** One request to one replica, or to the next by the proxy. */
  async fetch(method: string, path: string, init: RequestInit = {}, index?: number): Promise<Response> {
    const port = index === undefined ? this.#proxy.port : this.#replica(index).port
    const headers = { authorization: `Bearer ${key}`, connection: 'close', ...init.headers }
    return await fetch(`http://127.0.0.1:${port}${path}`, { ...init, method, headers })
  }

  /** Repeats a request while its answer is lost or says that a repetition may succeed. */
  async request<T>(
    method: string,
    path: string,
    init: RequestInit = {},
  ): Promise<{ status: number; body: T }> {
    let last = ''
    for (const endMs = Date.now() + patienceMs; Date.now() < endMs; await sleep(100)) {
      const response = await this.fetch(method, path, init).catch(() => undefined)
      const text = await response?.text().catch(() => undefined)
      if (response === undefined || text === undefined) continue
      last = `${response.status} ${text}`
      if (response.status !== 503 && response.status !== 502)
        return { status: response.status, body: (text === '' ? undefined : JSON.parse(text)) as T }
    }
    throw new Error(`${method} ${path} does not succeed: ${last}\n${this.#output.slice(-4_000)}`)
  }

  /** Processes, files and mounts of sandboxes. */
  listResources(id = ''): Promise<string[]> {
    return listProcessResources(this.data, id)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const index of this.#replicas.keys()) {
      this.signal(index, 'SIGCONT')
      await this.kill(index)
    }
    this.#proxy.close()
    await cleanUpProcesses(this.data)
    await this.database[Symbol.asyncDispose]()
    await rm(this.data, { recursive: true, force: true, maxRetries: 10 })
  }

  #replica(index: number): Replica {
    const replica = this.#replicas[index]
    if (replica === undefined) throw new Error(`there is no replica ${index}`)
    return replica
  }
}

/** Gives each connection to the next port that accepts it. */
async function startProxy(ports: readonly number[]) {
  let next = 0
  const sockets = new Set<Socket>()
  const server = createServer((near) => {
    near.on('error', () => {})
    sockets.add(near)
    near.on('close', () => sockets.delete(near))
    const attempt = (left: number) => {
      const far = connect(Number(ports[next++ % ports.length]), '127.0.0.1')
      let isConnected = false
      far.once('connect', () => {
        isConnected = true
        near.pipe(far).pipe(near)
        near.on('close', () => far.destroy())
      })
      far.on('error', () => {
        if (isConnected || left === 0) near.destroy()
        else attempt(left - 1)
      })
      far.on('close', () => {
        if (isConnected) near.destroy()
      })
    }
    attempt(ports.length)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as { readonly port: number }).port,
    close() {
      server.close()
      for (const socket of sockets) socket.destroy()
    },
  }
}
