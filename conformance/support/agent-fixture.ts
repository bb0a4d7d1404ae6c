import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import { AgentDriver } from './agent-driver.ts'
import { openAgentServer, type StartedServer, startAgentServer, type TestServer } from './agent-server.ts'
import { AgentServerApi, type ResponseObserver } from './agent-server-api.ts'
import { openServerInProcess } from './server-in-process.ts'

/** A server and what the tests of a file need to call it. */
export interface AgentFixture {
  readonly server: TestServer
  readonly api: AgentServerApi
  readonly driver: AgentDriver
  /** The workspace of conversations that name no other; no symbolic link. */
  readonly directory: string
}

/** Opens a server at the top of a test file; it closes after the last test. */
export async function openAgentFixture(): Promise<AgentFixture> {
  const directory = await createDirectory()
  const server = await openAgentServer()
  afterAll(async () => {
    await server[Symbol.asyncDispose]()
    await removeDirectory(directory)
  })
  const api = new AgentServerApi(server)
  return { server, api, driver: new AgentDriver({ api, directory }), directory }
}

export interface OwnAgentServerOptions {
  /** Settings of each start. */
  readonly env?: Readonly<Record<string, string>>
  /** The session key: a setting, and a header of each call. */
  readonly sessionKey?: string
  readonly onResponse?: ResponseObserver
  /** In the process of the tests: nothing kills it or reads its output. */
  readonly isInProcess?: boolean
}

/**
 * A server of the working tree with its own data directory, which a test can stop, kill and start again.
 */
export class OwnAgentServer implements AsyncDisposable {
  /** The data directory; no symbolic link. */
  readonly data: string
  /** The workspace of conversations that name no other; no symbolic link. */
  readonly directory: string
  readonly #options: OwnAgentServerOptions
  #process: StartedServer | undefined
  #api: AgentServerApi | undefined
  #earlierOutput = ''

  private constructor(data: string, directory: string, options: OwnAgentServerOptions) {
    this.data = data
    this.directory = directory
    this.#options = options
  }

  static async open(options: OwnAgentServerOptions = {}): Promise<OwnAgentServer> {
    const server = new OwnAgentServer(await createDirectory(), await createDirectory(), options)
    await server.start()
    return server
  }

  get url(): string {
    return this.api.endpoint.url
  }

  /** Calls of the present process. */
  get api(): AgentServerApi {
    if (this.#api === undefined) throw new Error('the server is not started')
    return this.#api
  }

  get driver(): AgentDriver {
    return new AgentDriver({ api: this.api, directory: this.directory })
  }

  /** Of the present process. */
  get pid(): number {
    if (this.#process?.pid === undefined) throw new Error('the server is not started')
    return this.#process.pid
  }

  /** What all its processes have printed. */
  output(): string {
    return this.#earlierOutput + (this.#process?.output() ?? '')
  }

  /** `env` replaces settings of this start. */
  async start(env: Readonly<Record<string, string>> = {}): Promise<void> {
    const { sessionKey, onResponse, isInProcess } = this.#options
    if (this.#process !== undefined && !isInProcess) this.#earlierOutput = this.output()
    const keyEnv = sessionKey === undefined ? {} : { SLIPWAY_SESSION_API_KEY: sessionKey }
    const open = isInProcess ? openServerInProcess : startAgentServer
    this.#process = await open(this.data, { ...keyEnv, ...this.#options.env, ...env })
    const headers: Record<string, string> =
      sessionKey === undefined ? {} : { 'x-session-api-key': sessionKey }
    this.#api = new AgentServerApi({ url: this.#process.url, headers }, onResponse)
  }

  /** Resolves with the exit code; null after a kill. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    return (await this.#process?.stop(signal)) ?? null
  }

  async restart(
    signal: NodeJS.Signals = 'SIGTERM',
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    await this.stop(signal)
    await this.start(env)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop(this.#options.isInProcess ? 'SIGTERM' : 'SIGKILL')
    for (const path of [this.data, this.directory]) await removeDirectory(path)
  }
}

async function createDirectory(): Promise<string> {
  return await realpath(await mkdtemp(join(tmpdir(), 'slipway-test-')))
}

async function removeDirectory(path: string): Promise<void> {
  await rm(path, { recursive: true, force: true })
}
