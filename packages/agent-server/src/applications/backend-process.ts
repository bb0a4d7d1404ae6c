import { setTimeout as sleep } from 'node:timers/promises'
import { Workspace } from '@slipway/agent'
import type { ApplicationBackend } from '@slipway/protocol'
import { findFreePort } from '@slipway/shared/process'
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

/** A started program of an application: the leader of a process group that ends with it. */
export class BackendProcess {
  readonly revision: string
  readonly port: number
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

  private constructor(options: BackendProcessOptions, workspace: Workspace, port: number) {
    this.#options = options
    this.#workspace = workspace
    this.revision = options.revision
    this.port = port
    this.ended = this.#ending.signal
    const { backend, artifactDirectory, dataDirectory, output } = options
    const values = { artifact_dir: artifactDirectory, data_dir: dataDirectory, port: String(port) }
    const [program = '', ...args] = backend.argv.map((text) =>
      text.replaceAll(/\{(artifact_dir|data_dir|port)\}/g, (_, name: keyof typeof values) => values[name]),
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
    return new BackendProcess(options, workspace, await findFreePort())
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
      const url = `http://127.0.0.1:${this.port}${this.#options.backend.health.path}`
      const answer = await fetch(url, { redirect: 'manual', signal })
      await answer.body?.cancel()
      return answer.ok
    } catch {
      return false
    }
  }
}
