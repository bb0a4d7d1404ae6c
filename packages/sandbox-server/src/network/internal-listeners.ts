import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppOptions, createApp, type Handlers, type Listening, listen } from '@slipway/http'
import { type LogFunction, sandboxServerOpenApi, sandboxServerRoutes } from '@slipway/protocol'
import { auditCaller } from '../auth/authenticator.ts'
import type { Backend } from '../backends/backend.ts'

const { receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret } = sandboxServerRoutes
/** What sandboxes call, each with its session key. */
const sandboxRoutes = { receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret }
/** Between two looks for the address of a network: before there is one, and after. */
const defaultPollMs = [2_000, 5_000] as const

/** The socket by which sandboxes without a network reach this server; alone in its folder, which they see. */
export function hostSocketPath(socketDirectory: string): string {
  return join(socketDirectory, 'host.sock')
}

/**
 * The host names that requests may name: those that are given, and those by which sandboxes know this server. None when none is
 * given: then any is taken.
 */
export function allowedHostNames(
  configured: readonly string[],
  backends: Iterable<Pick<Backend, 'hostUrl'>>,
): string[] {
  if (configured.length === 0) return []
  const own = [...backends].map((backend) => backend.hostUrl(80, 'shared'))
  const names = own.flatMap((url) => (url === undefined ? [] : [new URL(url).hostname]))
  return [...new Set([...configured, ...names])]
}

interface InternalListenersOptions {
  readonly handlers: Handlers<typeof sandboxRoutes>
  readonly identify: NonNullable<AppOptions['identify']>
  readonly backends: ReadonlyMap<string, Backend>
  /** Where the server itself listens. */
  readonly host: string
  readonly port: number
  readonly socketDirectory: string
  readonly log: LogFunction
  /** As for the server itself; without its metrics. */
  readonly telemetry?: Pick<AppOptions, 'audit' | 'traces'>
  /** Milliseconds between two looks for the address of a network: before there is one, and after. 2 and 5 s unless given. */
  readonly pollMs?: readonly [number, number]
}

/**
 * Further listeners for sandboxes that cannot reach the server's own address: a Unix socket for those without a network, and
 * the address of a backend's network, wherever that moves to. They serve what sandboxes call and nothing else.
 */
export class InternalListeners implements AsyncDisposable {
  readonly #options: InternalListenersOptions
  #socket: Listening | undefined
  #gateway: { readonly address: string; readonly listening: Listening } | undefined
  #timer: NodeJS.Timeout | undefined
  #opening: Promise<void>
  #isClosed = false
  /** Said once. */
  #lastError: string | undefined

  constructor(options: InternalListenersOptions) {
    this.#options = options
    this.#opening = this.#openAll()
  }

  /** The socket is there when this resolves; an address of a network comes when the backend has one. */
  async waitOpened(): Promise<void> {
    await this.#opening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#opening
    await Promise.all([this.#socket?.close(), this.#gateway?.listening.close()])
  }

  async #openAll(): Promise<void> {
    const { backends, socketDirectory, host } = this.#options
    if (backends.has('process')) await this.#openSocket(socketDirectory)
    const backend = [...backends.values()].find((one) => one.gatewayAddress !== undefined)
    const isEverywhere = host === '0.0.0.0' || host === '::'
    if (backend?.gatewayAddress === undefined || isEverywhere) return
    await this.#watchGateway(backend.gatewayAddress.bind(backend))
  }

  async #openSocket(directory: string): Promise<void> {
    const { log } = this.#options
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const socketPath = hostSocketPath(directory)
      this.#socket = await listen(this.#app(), { socketPath })
      // Sandboxes may have users of their own. Who can enter the folder is up to the folder, and a key is asked for.
      await chmod(socketPath, 0o666)
    } catch (error) {
      log('warn', 'sandboxes without a network cannot reach this server', {
        error: error instanceof Error ? error.message : String(error),
      })
    }
  }

  /**
   * Some engines make their network with the first sandbox, and some are not there yet. It is looked at for ever: a network that
   * somebody has taken away is made again, perhaps with another address.
   */
  async #watchGateway(find: () => Promise<string | undefined>): Promise<void> {
    const { log, pollMs: [beforeMs, afterMs] = defaultPollMs } = this.#options
    try {
      const address = await find()
      if (address !== undefined && !this.#isClosed) await this.#moveTo(address)
      this.#lastError = undefined
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      if (text !== this.#lastError) log('warn', 'sandboxes may not reach this server', { error: text })
      this.#lastError = text
    }
    if (this.#isClosed) return
    const retry = () => {
      this.#opening = this.#watchGateway(find)
    }
    this.#timer = setTimeout(retry, this.#gateway === undefined ? beforeMs : afterMs).unref()
  }

  /** An address that is gone and comes back is listened on all the time: the listener stays until there is another one. */
  async #moveTo(address: string): Promise<void> {
    const { port, host, log } = this.#options
    const previous = this.#gateway
    if (previous?.address === address || address === host) return
    this.#gateway = { address, listening: await listen(this.#app(), { host: address, port }) }
    log('info', 'sandboxes reach this server at the address of their network', { address, port })
    await previous?.listening.close()
  }

  #app() {
    const { handlers, identify, log, telemetry: { audit, traces } = {} } = this.#options
    return createApp(sandboxRoutes, handlers, {
      openapi: sandboxServerOpenApi,
      identify,
      auditCaller,
      audit,
      traces,
      log,
    })
  }
}
