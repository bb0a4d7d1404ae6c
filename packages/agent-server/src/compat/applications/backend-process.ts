import { randomBytes } from 'node:crypto'
import { rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Workspace } from '@slipway/agent'
import { unixFetch, unixSocketUrl } from '@slipway/http'
import { type ApplicationBackend, Problem } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import { findFreePort, removeSocketLinks, shortSocketPath } from '@slipway/shared/process'
import type { OutputTail } from './output-tail.ts'

/** How long an answer about the state waits for the program. */
const probeMs = 1_000

interface BackendProcessOptions {
  /** Of the installed package: the working directory. */
  readonly folder: string
  readonly environment: Readonly<Record<string, string>>
  readonly backend: ApplicationBackend
  readonly revision: string
  readonly artifactDirectory: string
  readonly dataDirectory: string
  readonly output: OutputTail
}

/** Where a program listens, and how it learns that. */
interface Door {
  /** `http://127.0.0.1:40000`, or `http+unix://...`. */
  readonly url: string
  /** Null: on a Unix socket. */
  readonly port: number | null
  /** Of every request that this server sends. */
  readonly headers: Readonly<Record<string, string>>
  /** Of placeholders in its arguments. */
  readonly values: Readonly<Record<string, string>>
}

/** Has the key of `{key_file}` in every request of this server. */
const applicationKeyHeader = 'x-slipway-application-key'

/** A started program of an application: the leader of a process group that ends with it. */
export class BackendProcess {
  readonly revision: string
  readonly door: Door
  readonly pid: number | undefined
  state: 'starting' | 'ready' | 'unhealthy' | 'stopped' = 'starting'
  /** Why it is unhealthy. */
  detail: string | null = null
  /** Aborts when it has ended. */
  readonly ended: AbortSignal
  readonly #options: BackendProcessOptions
  readonly #workspace: Workspace
  readonly #exited: Promise<unknown>
  readonly #ending = new AbortController()

  private constructor(options: BackendProcessOptions, workspace: Workspace, door: Door) {
    this.#options = options
    this.#workspace = workspace
    this.revision = options.revision
    this.door = door
    this.ended = this.#ending.signal
    const { backend, artifactDirectory, dataDirectory, output } = options
    const values = { ...door.values, artifact_dir: artifactDirectory, data_dir: dataDirectory }
    const [program = '', ...args] = backend.argv.map((text) =>
      text.replaceAll(placeholder, (whole, name: string) => (values as Door['values'])[name] ?? whole),
    )
    const child = workspace.spawn(program, args)
    child.stdin.end()
    child.stdout.on('data', (chunk: Buffer) => output.append('stdout', chunk))
    child.stderr.on('data', (chunk: Buffer) => output.append('stderr', chunk))
    this.pid = child.pid
    const exited = Promise.withResolvers<void>()
    this.#exited = exited.promise
    child.once('error', () => {
      this.#end('backend cannot be started')
      exited.resolve()
    })
    // Not `close`: a child of the program may hold its output.
    child.once('exit', (code, signal) => {
      this.#end(code === null ? `backend was ended by ${signal}` : `backend exited with code ${code}`)
      exited.resolve()
      // The rest of what it has written may still come.
      setTimeout(() => {
        for (const stream of [child.stdout, child.stderr]) stream.destroy()
      }, 500).unref()
    })
  }

  static async start(options: BackendProcessOptions): Promise<BackendProcess> {
    const workspace = await Workspace.open({
      directory: options.folder,
      env: options.environment,
      isOfServer: true,
    })
    return new BackendProcess(options, workspace, await openDoor(options))
  }

  get isRunning(): boolean {
    return this.state === 'starting' || this.state === 'ready'
  }

  /** Waits until it is ready, has failed or is stopped. */
  async waitUntilReady(): Promise<void> {
    const { timeout_seconds, interval_seconds } = this.#options.backend.health
    const endMs = Date.now() + timeout_seconds * 1000
    while (this.state === 'starting') {
      if (await this.#probe(Math.max(1, Math.min(endMs - Date.now(), 5_000)))) {
        if (this.state === 'starting') this.state = 'ready'
        return
      }
      if (this.state !== 'starting') return
      if (Date.now() >= endMs) {
        this.#end('backend health check timed out')
        await this.#kill()
        return
      }
      await sleep(interval_seconds * 1000, undefined, { signal: this.ended }).catch(() => undefined)
    }
  }

  /** Whether a ready program answers now. */
  async isHealthy(): Promise<boolean> {
    return await this.#probe(probeMs)
  }

  /** Ends the program and its process group. */
  async stop(): Promise<void> {
    if (this.isRunning) this.state = 'stopped'
    this.#ending.abort()
    await this.#kill()
  }

  async #kill(): Promise<void> {
    await this.#workspace[Symbol.asyncDispose]()
    await this.#exited
    await removeSocketLinks(socketFolder(this.#options))
  }

  #end(detail: string): void {
    if (this.isRunning) {
      this.state = 'unhealthy'
      this.detail = detail
    }
    this.#ending.abort()
    void this.#workspace[Symbol.asyncDispose]()
  }

  async #probe(timeoutMs: number): Promise<boolean> {
    try {
      const signal = AbortSignal.any([AbortSignal.timeout(timeoutMs), this.ended])
      const { url, headers } = this.door
      const address = url + this.#options.backend.health.path
      const answer = await unixFetch(address, { redirect: 'manual', signal, headers })
      await answer.body?.cancel()
      return answer.ok
    } catch {
      return false
    }
  }
}

const placeholder = /\{(artifact_dir|data_dir|port|socket|key_file)\}/g

function socketFolder({ dataDirectory }: BackendProcessOptions): string {
  return join(dataDirectory, 'run')
}

/**
 * By the placeholders of its arguments: with `{socket}` a program listens where this user alone may connect.
 * A port is open to every user and page of the machine, and the key in `{key_file}` tells their requests
 * from those of this server.
 */
async function openDoor(options: BackendProcessOptions): Promise<Door> {
  const { backend } = options
  const names = new Set(
    backend.argv.flatMap((text) => [...text.matchAll(placeholder)].map(([, name]) => name)),
  )
  const folder = socketFolder(options)
  await makeDirectory(folder, 0o700)
  const values: Record<string, string> = {}
  const headers: Record<string, string> = {}
  if (names.has('key_file')) {
    const key = randomBytes(32).toString('base64url')
    values.key_file = join(folder, 'key')
    await rm(values.key_file, { force: true })
    await writeFile(values.key_file, key, { flag: 'wx', mode: 0o600 })
    headers[applicationKeyHeader] = key
  }
  if (names.has('socket')) {
    const path = await shortSocketPath(folder, 'socket')
    if (path === undefined) throw new Problem('conflict', `the path of its socket is too long: ${folder}`)
    await rm(path, { force: true })
    return { url: unixSocketUrl(path), port: null, headers, values: { ...values, socket: path } }
  }
  const port = await findFreePort()
  return { url: `http://127.0.0.1:${port}`, port, headers, values: { ...values, port: String(port) } }
}
