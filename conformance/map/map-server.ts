import { mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll } from 'vitest'
import { WebSocket } from 'ws'
import type { Clock } from '../../packages/shared/src/time/index.ts'
import { SocketClient } from '../support/agent-driver.ts'
import { type StartedServer, startAgentServer } from '../support/agent-server.ts'
import type { ApiEvent } from '../support/agent-server-api.ts'
import { MockProvider, type ModelReply, type ScriptedReply } from '../support/mock-provider.ts'
import { openServerInProcess } from '../support/server-in-process.ts'
import { type Json, WireClient } from '../support/wire-client.ts'
import { externalUrl } from './frame.ts'

export type { ModelReply, ScriptedReply } from '../support/mock-provider.ts'
export type { Json } from '../support/wire-client.ts'

export const unknownId = '00000000-0000-4000-8000-000000000000'

/** A conversation as REST returns it; each case checks the members that it reads. */
export interface MapConversation {
  readonly id: string
  readonly execution_status: string
  readonly [member: string]: unknown
}

/** A reply that calls one tool. */
export function toolReply(name: string, args: object = {}): ModelReply {
  return { calls: [{ name, arguments: args }] }
}

/** A reply that runs a command. */
export function commandReply(command: string, more: object = {}): ModelReply {
  return toolReply('terminal', { command, ...more })
}

export function finishReply(message = 'Done.'): ModelReply {
  return toolReply('finish', { message })
}

/** A model call that is answered when `release` was called. */
export function heldReply(reply: ModelReply = { text: 'Late.' }): {
  readonly reply: (provider: MockProvider) => ScriptedReply
  /** Resolves when the call has arrived. */
  readonly arrived: Promise<void>
  readonly release: () => void
} {
  const arrived = Promise.withResolvers<void>()
  const released = Promise.withResolvers<void>()
  return {
    reply: (provider) => async (response, request) => {
      arrived.resolve()
      await released.promise
      if (!response.destroyed) provider.sendReply(response, request, reply)
    },
    arrived: arrived.promise,
    release: () => released.resolve(),
  }
}

/** What cases ask of a server; the requests of `WireClient` and a few sequences of them. */
export class MapClient extends WireClient {
  /** An empty folder for workspaces, on the server's machine; no symbolic link. */
  directory = ''

  /** The request of a conversation that the model of a provider answers. */
  conversationRequest(provider: MockProvider | undefined, more: object = {}): object {
    const llm = provider?.llm('chat') ?? { model: 'openai/gpt-4o', api_key: 'sk-far', usage_id: 'agent' }
    return {
      agent: { kind: 'Agent', llm, tools: [{ name: 'terminal' }] },
      workspace: { kind: 'LocalWorkspace', working_dir: this.directory },
      ...more,
    }
  }

  /** Creates a conversation; without a provider no model may be asked. */
  async createConversation(provider?: MockProvider, more: object = {}): Promise<MapConversation> {
    const body = this.conversationRequest(provider, more)
    return await this.requestOrThrow<MapConversation>('POST', '/api/conversations', { body })
  }

  async getConversation(id: string): Promise<MapConversation> {
    return await this.requestOrThrow<MapConversation>('GET', `/api/conversations/${id}`)
  }

  /** Stores a user message; returns the status of the answer. */
  async sendMessage(id: string, text: string, run = false): Promise<number> {
    const body = { role: 'user', content: [{ type: 'text', text }], run }
    return await this.requestStatus('POST', `/api/conversations/${id}/events`, { body })
  }

  /** `verb` is a route below the conversation. */
  async post(id: string, verb: string, body?: unknown): Promise<{ status: number; body: Json }> {
    return await this.request<Json>('POST', `/api/conversations/${id}/${verb}`, { body })
  }

  /** Waits until the conversation has one of the statuses. */
  async waitForStatus(id: string, ...statuses: readonly string[]): Promise<MapConversation> {
    return await waitFor(
      () => this.getConversation(id),
      ({ execution_status }) => statuses.includes(execution_status),
    )
  }

  /** All stored events, in the order of the log. */
  async getEvents(id: string, query: Readonly<Record<string, string>> = {}): Promise<ApiEvent[]> {
    const events: ApiEvent[] = []
    for (let page: string | null = ''; page !== null; ) {
      const path = `/api/conversations/${id}/events/search`
      const found: { items: ApiEvent[]; next_page_id: string | null } = await this.requestOrThrow(
        'GET',
        path,
        {
          query: { limit: '100', ...query, ...(page === '' ? {} : { page_id: page }) },
        },
      )
      events.push(...found.items)
      page = found.next_page_id
    }
    return events
  }

  /** Waits until an event is stored; returns all events. */
  async waitForEvent(id: string, isExpected: (event: ApiEvent) => boolean): Promise<ApiEvent[]> {
    return await waitFor(
      () => this.getEvents(id),
      (events) => events.some(isExpected),
    )
  }

  /** Opens a socket with the key in a header; it is not awaited. */
  openSocket(path: string, headers: Readonly<Record<string, string>> = this.headers): SocketClient {
    return new SocketClient(`${this.url.replace(/^http/, 'ws')}${path}`, headers)
  }

  /** The status of the answer to an upgrade: 101 when the socket opens. */
  async upgradeStatus(path: string, headers: Readonly<Record<string, string>> = {}): Promise<number> {
    const socket = new WebSocket(`${this.url.replace(/^http/, 'ws')}${path}`, { headers })
    return await new Promise((done, fail) => {
      socket.on('open', () => {
        socket.terminate()
        done(101)
      })
      socket.on('unexpected-response', (_, response) => {
        socket.terminate()
        done(response.statusCode ?? 0)
      })
      socket.on('error', fail)
    })
  }
}

/** The server that the cases of a file share. */
export interface MapServer extends MapClient {
  /** A model that plays replies; the last one again and again. It closes after the last case. */
  openModel(...replies: readonly ScriptedReply[]): Promise<MockProvider>
}

export interface SharedServerOptions extends OwnMapServerOptions {
  /** An external server, instead of one of the working tree. */
  readonly url: string | undefined
}

/** The server of a file of cases, open while they run. */
export class SharedServer extends MapClient implements MapServer {
  readonly #providers: MockProvider[] = []
  readonly #options: SharedServerOptions
  #close: () => Promise<void> = async () => {}

  constructor(options: SharedServerOptions) {
    super(options.url?.replace(/\/$/, '') ?? '', options.key)
    this.#options = options
  }

  async open(): Promise<void> {
    if (this.#options.url === undefined) {
      const own = await OwnMapServer.open(this.#options)
      this.url = own.url
      this.#close = () => own[Symbol.asyncDispose]()
    }
    this.directory = await this.createDirectory()
  }

  async openModel(...replies: readonly ScriptedReply[]): Promise<MockProvider> {
    const provider = await openModel(...replies)
    this.#providers.push(provider)
    return provider
  }

  async close(): Promise<void> {
    if (this.directory !== '') await this.removeDirectory()
    await this.#close()
    for (const provider of this.#providers) await provider[Symbol.asyncDispose]()
  }

  protected createDirectory(): Promise<string> {
    return createDirectory()
  }

  protected async removeDirectory(): Promise<void> {
    await rm(this.directory, { recursive: true, force: true })
  }
}

/** Opens the server before the first case of a file and closes it after the last. */
export function openShared<T extends SharedServer>(server: T): T {
  beforeAll(() => server.open(), 60_000)
  afterAll(() => server.close(), 60_000)
  return server
}

/**
 * The server that the cases of a file share.
 *
 * @param options - `isProcess` also where cases look at the environment that programs inherit
 */
export function openMapServer(
  env: Readonly<Record<string, string>> = {},
  options: Pick<OwnMapServerOptions, 'isProcess'> = {},
): MapServer {
  const key = externalUrl === undefined ? 'map-key-1' : process.env.SLIPWAY_MAP_KEY
  return openShared(new SharedServer({ ...options, env, url: externalUrl, key }))
}

export async function openModel(...replies: readonly ScriptedReply[]): Promise<MockProvider> {
  const provider = await MockProvider.open()
  provider.replies = [...replies]
  return provider
}

export interface OwnMapServerOptions {
  readonly env?: Readonly<Record<string, string>>
  /** Undefined: the server takes calls without a key. */
  readonly key?: string | undefined
  /** The case kills the server, gives it arguments, or reads its output. */
  readonly isProcess?: boolean
  /** Of a server in the process of the tests; the system's by default. */
  readonly clock?: Clock
}

/** A server of one case, whose data and home are its own. With `isProcess` it can be killed. */
export class OwnMapServer extends MapClient implements AsyncDisposable {
  readonly data: string
  readonly home: string
  readonly #env: Readonly<Record<string, string>>
  readonly #isProcess: boolean
  readonly #clock: Clock | undefined
  #server: StartedServer | undefined

  private constructor(data: string, home: string, directory: string, options: OwnMapServerOptions) {
    super('', options.key)
    this.#isProcess = options.isProcess ?? false
    this.#clock = options.clock
    this.data = data
    this.home = home
    this.directory = directory
    this.#env = options.env ?? {}
  }

  static async open(options: OwnMapServerOptions = {}): Promise<OwnMapServer> {
    const directories = [await createDirectory(), await createDirectory(), await createDirectory()] as const
    const server = new OwnMapServer(...directories, options)
    try {
      await server.start()
    } catch (error) {
      await server[Symbol.asyncDispose]()
      throw error
    }
    return server
  }

  /** `env` replaces settings of this start. */
  async start(env: Readonly<Record<string, string>> = {}, extraArgs: readonly string[] = []): Promise<void> {
    const keyEnv: Record<string, string> =
      this.key === undefined ? {} : { SLIPWAY_SESSION_API_KEY: this.key, SLIPWAY_NO_KEY: '' }
    const map = { HOME: this.home, SLIPWAY_WIRE: 'current' }
    const all = { ...map, ...keyEnv, ...this.#env, ...env }
    if (!this.#isProcess && extraArgs.length > 0) throw new Error('Arguments need `isProcess`')
    this.#server = this.#isProcess
      ? await startAgentServer(this.data, all, extraArgs)
      : await openServerInProcess(this.data, all, this.#clock)
    this.url = this.#server.url
  }

  /** What the present process has printed. */
  output(): string {
    return this.#server?.output() ?? ''
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    await this.#server?.stop(signal)
  }

  async restart(
    signal: NodeJS.Signals = 'SIGTERM',
    env: Readonly<Record<string, string>> = {},
  ): Promise<void> {
    await this.stop(signal)
    await this.start(env)
  }

  /** For clients that come back on their own. */
  async restartAtSamePort(): Promise<void> {
    const { port } = new URL(this.url)
    await this.stop()
    await this.start({}, ['--port', port])
  }

  /** In an orderly way, because a killed server leaves programs of applications to its next start. */
  async [Symbol.asyncDispose](): Promise<void> {
    const kill = this.#isProcess ? setTimeout(() => void this.stop('SIGKILL'), 5_000) : undefined
    await this.stop()
    clearTimeout(kill)
    for (const path of [this.data, this.home, this.directory])
      await rm(path, { recursive: true, force: true })
  }
}

/** The frames of a socket as soon as they are sufficient; throws when it closes before, or after 15 s. */
export async function waitForFrames<T = ApiEvent>(
  socket: SocketClient,
  isEnough: (frames: readonly T[]) => boolean,
): Promise<T[]> {
  const ended = socket.closed.then(({ code, reason }) => {
    throw new Error(`the socket closed: ${code} ${reason}`)
  })
  const late = sleep(15_000, undefined, { ref: false }).then(() => {
    throw new Error(`timed out: ${socket.frames.join('\n').slice(0, 2000)}`)
  })
  ended.catch(() => {})
  late.catch(() => {})
  const isSufficient = (events: readonly ApiEvent[]) => isEnough(events as readonly unknown[] as readonly T[])
  return (await Promise.race([socket.waitUntil(isSufficient), ended, late])) as unknown[] as T[]
}

/** Asks again until the answer is as expected; throws with the last answer after 30 s. */
export async function waitFor<T>(ask: () => Promise<T>, isExpected: (answer: T) => boolean): Promise<T> {
  for (const end = Date.now() + 30_000; ; await sleep(50)) {
    const answer = await ask()
    if (isExpected(answer)) return answer
    if (Date.now() > end) throw new Error(`timed out: ${JSON.stringify(answer).slice(0, 2000)}`)
  }
}

async function createDirectory(): Promise<string> {
  return await realpath(await mkdtemp(join(tmpdir(), 'slipway-map-')))
}
