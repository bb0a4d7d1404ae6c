import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chown, mkdtemp, realpath, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { commandMain } from '@slipway/shared/process/testing'
import { sandboxNetworkEnv } from '../../../packages/cli/src/testing/sandbox-network.ts'
import { databaseSettings } from '../agent-server.ts'
import { freePort } from '../free-port.ts'
import { runSql } from '../test-database.ts'
import { listEngineResources, removeEngineResources, type TestEngine } from './container-engine.ts'
import { DirectAddress } from './direct-address.ts'
import {
  cleanUpProcesses,
  hasSandboxFiles,
  ledgerFile,
  listProcessResources,
  markAllForDeletion,
  readControlPlaneId,
} from './process-resources.ts'
import { giveSharedCode, takeSharedCode } from './shared-code.ts'

/** The server's key is set, so that no key is lost when it is killed at its first start. */
const administratorKey = 'sk-conformance-of-the-administrator'

/** A server that takes longer than this hangs. */
const startMs = 120_000
const stopMs = 60_000

/** A sandbox as the API returns it. */
export interface SandboxInfo {
  readonly id: string
  readonly status: string
  readonly status_detail?: string | null
  readonly status_reason?: unknown
  readonly session_api_key: string | null
  readonly exposed_urls:
    | readonly { readonly name: string; readonly url: string; readonly port: number }[]
    | null
  readonly [member: string]: unknown
}

export interface JsonResponse<T> {
  readonly status: number
  readonly headers: Headers
  readonly body: T
}

export interface SandboxServerOptions {
  /** Settings named `SLIPWAY_*`, for each start. Those of the tests' own environment are not passed on. */
  readonly env?: Readonly<Record<string, string>>
  /** The address that it listens on. */
  readonly host?: string
  /** The user that it runs as, when the tests are root. */
  readonly uid?: number
  /** Its sandboxes are containers of this engine; otherwise they are processes. */
  readonly engine?: TestEngine
}

/**
 * A program instead of `slipway sandbox-server`, for one start. Its arguments are `--port`, `--data`,
 * `--host`.
 */
export interface ServerProgram {
  readonly main: string
  readonly args?: readonly string[]
}

/**
 * A sandbox server of the working tree in a process and its own directory, which a test may kill and
 * start again at the same address. Disposal deletes all of its sandboxes and rejects when anything is left of
 * them.
 */
export class SandboxServer implements AsyncDisposable {
  /** Key of the administrator. */
  readonly key = administratorKey
  /** The data directory; no symbolic link. */
  readonly data: string
  readonly #options: SandboxServerOptions
  readonly #output: string[] = []
  readonly #directAddresses: DirectAddress[] = []
  #port: number
  #child: ChildProcess | undefined

  private constructor(data: string, port: number, options: SandboxServerOptions) {
    this.data = data
    this.#port = port
    this.#options = options
  }

  /** Opens a server and waits until it answers. */
  static async open(options: SandboxServerOptions = {}): Promise<SandboxServer> {
    const server = await SandboxServer.prepare(options)
    try {
      await server.start()
    } catch (error) {
      await rm(server.data, { recursive: true, force: true })
      throw error
    }
    return server
  }

  /** Prepares a server without starting it. */
  static async prepare(options: SandboxServerOptions = {}): Promise<SandboxServer> {
    const data = await realpath(await mkdtemp(join(tmpdir(), 'slipway-conformance-')))
    if (options.uid !== undefined) await chown(data, options.uid, options.uid)
    return new SandboxServer(data, await freePort(), options)
  }

  get port(): number {
    return this.#port
  }

  get url(): string {
    return `http://${this.#options.host ?? '127.0.0.1'}:${this.#port}`
  }

  get pid(): number | undefined {
    return this.isRunning ? this.#child?.pid : undefined
  }

  get isRunning(): boolean {
    return this.#child !== undefined && this.#child.exitCode === null && this.#child.signalCode === null
  }

  /** The output of all its starts. */
  output(): string {
    return this.#output.join('')
  }

  /** Resolves when it answers; rejects when it ends before. */
  async start(
    options: { readonly env?: Readonly<Record<string, string>>; readonly program?: ServerProgram } = {},
  ): Promise<void> {
    if (this.isRunning) throw new Error('it is running already')
    if (this.#options.uid === undefined) {
      await giveSharedCode(this.data)
      await takeSharedCode(this.data)
    }
    const database = await databaseSettings(this.data)
    const child = this.#spawn(options, database)
    this.#child = child
    let printed = ''
    const ready = new Promise<void>((resolve) => {
      child.stdout?.on('data', (chunk) => {
        printed += chunk
        if (printed.includes('\n')) resolve()
      })
    })
    const exited = once(child, 'exit').then(([code, signal]) => {
      throw new Error(
        `the sandbox server ended with ${code ?? signal} before it answered: ${this.output().slice(-4_000)}`,
      )
    })
    const timeout = sleep(startMs, undefined, { ref: false }).then(() => {
      throw new Error(`the sandbox server does not answer: ${this.output().slice(-4_000)}`)
    })
    await Promise.race([ready, exited, timeout])
    const { SLIPWAY_DATABASE_URL: url } = database
    if (url !== undefined) {
      const [row] = await runSql(url, 'SELECT id FROM ledger')
      await writeFile(join(this.data, ledgerFile), String(row?.id))
    }
    timeout.catch(() => {})
    exited.catch(() => {})
  }

  /** Resolves when it has ended, with its exit code or the signal. Rejects when it does not end. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | string | null> {
    if (this.isRunning) this.#child?.kill(signal)
    let isLate = false
    const limit = setTimeout(() => {
      isLate = true
      this.#child?.kill('SIGKILL')
    }, stopMs)
    const exit = await this.waitForExit()
    clearTimeout(limit)
    if (isLate) throw new Error(`the sandbox server did not end: ${this.output().slice(-4_000)}`)
    return exit
  }

  /** Stops it and starts it again on another port. */
  async moveTo(port: number): Promise<void> {
    await this.stop()
    this.#port = port
    await this.start()
  }

  /** Sends a signal that does not end it. */
  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name)
  }

  /** Resolves when it has ended on its own. */
  async waitForExit(): Promise<number | string | null> {
    if (this.isRunning && this.#child !== undefined) await once(this.#child, 'exit')
    return this.#child?.exitCode ?? this.#child?.signalCode ?? null
  }

  /** A request with the key of the administrator, unless `init` has another one. */
  async fetch(path: string, init: RequestInit = {}): Promise<Response> {
    const headers = new Headers(init.headers)
    if (!headers.has('authorization') && !headers.has('x-access-token') && !headers.has('x-session-api-key'))
      headers.set('authorization', `Bearer ${this.key}`)
    return await fetch(`${this.url}${path}`, { ...init, headers })
  }

  /** The same with JSON in both directions; a reply that is not JSON is returned as text. */
  async requestJson<T = unknown>(
    method: string,
    path: string,
    body?: unknown,
    init: RequestInit = {},
  ): Promise<JsonResponse<T>> {
    const headers = new Headers(init.headers)
    if (body !== undefined) headers.set('content-type', 'application/json')
    const json = body === undefined ? {} : { body: JSON.stringify(body) }
    const response = await this.fetch(path, { ...init, ...json, method, headers })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json') ?? false
    return {
      status: response.status,
      headers: response.headers,
      body: (isJson ? JSON.parse(text) : text) as T,
    }
  }

  /** Starts a sandbox and returns it as it is then, usually STARTING. */
  async startSandbox(query = ''): Promise<SandboxInfo> {
    const { status, body } = await this.requestJson<SandboxInfo>('POST', `/api/v1/sandboxes${query}`)
    if (status !== 200) throw new Error(`the start answered ${status}: ${JSON.stringify(body)}`)
    return body
  }

  /** Undefined when the administrator has no such sandbox. */
  async getSandbox(id: string): Promise<SandboxInfo | undefined> {
    const { status, body } = await this.requestJson<(SandboxInfo | null)[]>(
      'GET',
      `/api/v1/sandboxes?id=${id}`,
    )
    if (status !== 200) throw new Error(`the sandbox answered ${status}: ${JSON.stringify(body)}`)
    return body[0] ?? undefined
  }

  /** All sandboxes of the administrator. */
  async listSandboxes(): Promise<SandboxInfo[]> {
    const found: SandboxInfo[] = []
    for (let page = ''; ; ) {
      const { status, body } = await this.requestJson<{ items: SandboxInfo[]; next_page_id: string | null }>(
        'GET',
        `/api/v1/sandboxes/search?limit=100${page}`,
      )
      if (status !== 200) throw new Error(`the list answered ${status}: ${JSON.stringify(body)}`)
      found.push(...body.items)
      if (body.next_page_id === null) return found
      page = `&page_id=${encodeURIComponent(body.next_page_id)}`
    }
  }

  /** Waits until a sandbox has a status; rejects when it has one of the `forbidden` ones before. */
  async waitForStatus(id: string, status: string, forbidden: readonly string[] = []): Promise<SandboxInfo> {
    let last: SandboxInfo | undefined
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(50)) {
      last = await this.getSandbox(id)
      if (last?.status === status) return last
      if (last !== undefined && forbidden.includes(last.status)) break
    }
    throw new Error(`the sandbox is not ${status}: ${JSON.stringify(last)}\n${this.output().slice(-4_000)}`)
  }

  /** Starts a sandbox and waits until it is RUNNING. */
  async startRunningSandbox(query = ''): Promise<SandboxInfo> {
    return await this.waitForStatus((await this.startSandbox(query)).id, 'RUNNING')
  }

  /** The same sandbox, a process, with an address that does not lead through this server. */
  async direct(sandbox: SandboxInfo): Promise<SandboxInfo> {
    const address = await DirectAddress.open(join(this.data, 'sandboxes', sandbox.id))
    this.#directAddresses.push(address)
    return { ...sandbox, exposed_urls: [{ name: 'AGENT_SERVER', url: address.url, port: 0 }] }
  }

  /**
   * The resources of its sandboxes (all, or one): processes, listeners, mounts, control groups, files,
   * containers, volumes. The server need not run.
   */
  async listResources(id = ''): Promise<string[]> {
    const { engine } = this.#options
    const controlPlane = readControlPlaneId(this.data)
    const engineResources =
      engine === undefined || controlPlane === undefined
        ? []
        : await listEngineResources(engine, controlPlane, id)
    return [...(await listProcessResources(this.data, id)), ...engineResources]
  }

  /** Waits until nothing is left of a sandbox, or of any. */
  async waitUntilGone(id = ''): Promise<void> {
    let left: string[] = []
    for (const deadline = Date.now() + 90_000; Date.now() < deadline; await sleep(100)) {
      if (this.isRunning && (await hasSandboxFiles(this.data, id))) continue
      left = await this.listResources(id)
      if (left.length === 0) return
      if (!this.isRunning) break
    }
    left = await this.listResources(id)
    throw new Error(`still there:\n${left.join('\n')}`)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#removeAll()
      await this.stop()
      const left = await this.listResources()
      if (left.length > 0) throw new Error(`left after the end of the server:\n${left.join('\n')}`)
      if (this.#options.uid === undefined) await giveSharedCode(this.data)
    } finally {
      for (const address of this.#directAddresses) await address[Symbol.asyncDispose]()
      await this.stop('SIGKILL')
      await this.#cleanUp()
      await rm(this.data, { recursive: true, force: true, maxRetries: 10 })
    }
  }

  async #removeAll(): Promise<void> {
    if (this.isRunning) this.signal('SIGCONT')
    await this.stop()
    if ((await this.listResources()).length === 0) return
    // Those of all users, and of the warm pool.
    const { SLIPWAY_DATABASE_URL: url } = await databaseSettings(this.data)
    if (url === undefined) markAllForDeletion(this.data)
    else await runSql(url, "UPDATE sandbox SET wanted = 'gone'")
    await this.start({ env: { SLIPWAY_WARM_POOL: '0', SLIPWAY_RECONCILE_SECONDS: '1' } })
    await this.waitUntilGone()
  }

  /** Removes leftovers. */
  async #cleanUp(): Promise<void> {
    const { engine } = this.#options
    const controlPlane = readControlPlaneId(this.data)
    await cleanUpProcesses(this.data)
    if (engine !== undefined && controlPlane !== undefined) await removeEngineResources(engine, controlPlane)
  }

  #spawn(
    { env = {}, program: replacement }: Parameters<SandboxServer['start']>[0] & object,
    database: Readonly<Record<string, string>>,
  ): ChildProcess {
    const listenArgs = [
      '--host',
      this.#options.host ?? '127.0.0.1',
      '--port',
      String(this.port),
      '--data',
      this.data,
    ]
    const args =
      replacement === undefined
        ? [commandMain, '--json', 'sandbox-server', ...listenArgs]
        : [replacement.main, ...listenArgs, ...(replacement.args ?? [])]
    const { uid } = this.#options
    const child = spawn(process.execPath, args, {
      ...(uid === undefined ? {} : { uid, gid: uid }),
      stdio: ['ignore', 'pipe', 'pipe'],
      env: {
        ...inheritedEnv(),
        SLIPWAY_API_KEY: administratorKey,
        SLIPWAY_LOG_LEVEL: 'info',
        ...sandboxNetworkEnv(),
        ...(database.SLIPWAY_DATABASE_URL === undefined ? {} : { ...database, SLIPWAY_LEASE_SECONDS: '2' }),
        ...engineEnv(this.#options.engine),
        ...this.#options.env,
        ...env,
      },
    })
    for (const stream of [child.stdout, child.stderr]) {
      stream?.on('data', (chunk) => this.#output.push(String(chunk)))
    }
    return child
  }
}

function engineEnv(engine: TestEngine | undefined): Record<string, string> {
  if (engine === undefined) return {}
  const { socketPath, image } = engine
  return { SLIPWAY_BACKEND: 'docker', SLIPWAY_DOCKER_SOCKET: socketPath, SLIPWAY_SANDBOX_IMAGE: image }
}

/** The tests' own environment without settings of our servers. */
function inheritedEnv(): Record<string, string | undefined> {
  const ownVariable = /^(?:SLIPWAY_|OH_|LLM_|MAX_LLM_)/
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !ownVariable.test(name)))
}
