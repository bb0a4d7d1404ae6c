import { chmod, rm } from 'node:fs/promises'
import { hostname } from 'node:os'
import { basename, join } from 'node:path'
import { type AppOptions, createApp, type Handlers, type Listening, listen } from '@slipway/http'
import { type LogFunction, sandboxServerOpenApi, sandboxServerRoutes } from '@slipway/protocol'
import { makeDirectory } from '@slipway/shared/fs'
import { removeSocketLinks, shortSocketPath } from '@slipway/shared/process'
import { errorText } from '@slipway/shared/text'
import { type Clock, systemClock, type Timer } from '@slipway/shared/time'
import type { Leases } from '@slipway/storage/control-plane'
import { auditCaller } from '../auth/authenticator.ts'
import type { Backend } from '../backends/backend.ts'

const { receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret } = sandboxServerRoutes
const { reserveBudget, settleBudget } = sandboxServerRoutes
/** The routes for sandboxes, which authenticate by their session keys. */
export const sandboxRoutes = {
  ...{ receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret },
  ...{ reserveBudget, settleBudget },
}

/** The socket for sandboxes without a network; alone in its folder, which they see. */
export function hostSocketPath(socketDirectory: string): string {
  return join(socketDirectory, 'host.sock')
}

/** The accepted host names: the configured ones and those that sandboxes use. Empty: any. */
export function allowedHostNames(
  configured: readonly string[],
  backends: Iterable<Pick<Backend, 'hostUrl'>>,
): string[] {
  if (configured.length === 0) return []
  const own = [...backends].map((backend) => backend.hostUrl(80, 'shared'))
  const names = own.flatMap((url) => (url === undefined ? [] : [new URL(url).hostname]))
  return [...new Set([...configured, ...names])]
}

const socketRetryMs = 1_000

interface InternalListenersOptions {
  readonly handlers: Handlers<typeof sandboxRoutes>
  readonly identify: NonNullable<AppOptions['identify']>
  readonly backends: ReadonlyMap<string, Backend>
  /** Of the server itself. */
  readonly host: string
  readonly port: number
  readonly socketDirectory: string
  /** Of several servers of a machine one has the socket. */
  readonly leases?: Leases | undefined
  readonly log: LogFunction
  readonly telemetry?: Pick<AppOptions, 'audit' | 'openTrail' | 'traces'>
  /** Milliseconds between checks for an address, without and with one; 2 and 5 s by default. */
  readonly pollMs?: readonly [number, number]
  readonly clock?: Clock
}

/** For sandboxes that cannot reach the server: a Unix socket, and the address of a backend's network. */
export class InternalListeners implements AsyncDisposable {
  readonly #options: InternalListenersOptions
  readonly #clock: Clock
  #socket: Listening | undefined
  #gateway: { readonly address: string; readonly listening: Listening } | undefined
  #timer: Timer | undefined
  #socketTimer: Timer | undefined
  #opening: Promise<void>
  #isClosed = false
  #lastError: string | undefined

  constructor(options: InternalListenersOptions) {
    this.#options = options
    this.#clock = options.clock ?? systemClock
    this.#opening = this.#openAll()
  }

  /** Resolves when the socket exists; the address of a network may come later. */
  async waitOpened(): Promise<void> {
    await this.#opening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    this.#timer?.cancel()
    this.#socketTimer?.cancel()
    await this.#opening
    await Promise.all([this.#closeSocket(), this.#gateway?.listening.close()])
  }

  async #closeSocket(): Promise<void> {
    if (this.#socket === undefined) return
    await this.#socket.close()
    await removeSocketLinks(this.#options.socketDirectory)
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
      await makeDirectory(directory, 0o700)
      const socketPath = hostSocketPath(directory)
      const { leases } = this.#options
      if (leases?.isShared === true) {
        if ((await leases.tryAcquire(`socket ${hostname()} ${socketPath}`)) === undefined) {
          this.#retrySocket(directory)
          return
        }
        // Of a server that ended, or does not answer.
        await rm(socketPath, { force: true })
      }
      const short = await shortSocketPath(directory, basename(socketPath))
      if (short === undefined) throw new Error(`${directory} is too long for the path of a Unix socket`)
      this.#socket = await listen(this.#app(), { socketPath: short })
      // For the users of sandboxes. The folder limits the access, and requests need a key.
      await chmod(socketPath, 0o666)
    } catch (error) {
      log('warn', 'sandboxes without a network cannot reach this server', { error: errorText(error) })
      if (this.#options.leases?.isShared === true) this.#retrySocket(directory)
    }
  }

  #retrySocket(directory: string): void {
    if (this.#isClosed) return
    const retry = () => {
      this.#opening = this.#opening.then(() => this.#openSocket(directory))
    }
    this.#socketTimer = this.#clock.schedule(socketRetryMs, retry, { ref: false })
  }

  /** Checks again and again: a network may not exist yet, or be created again with another address. */
  async #watchGateway(find: () => Promise<string | undefined>): Promise<void> {
    const { log, pollMs: [searchMs, watchMs] = [2_000, 5_000] } = this.#options
    try {
      const address = await find()
      if (address !== undefined && !this.#isClosed) await this.#moveTo(address)
      this.#lastError = undefined
    } catch (error) {
      const text = errorText(error)
      if (text !== this.#lastError) log('warn', 'sandboxes may not reach this server', { error: text })
      this.#lastError = text
    }
    if (this.#isClosed) return
    const retry = () => {
      this.#opening = this.#watchGateway(find)
    }
    const delayMs = this.#gateway === undefined ? searchMs : watchMs
    this.#timer = this.#clock.schedule(delayMs, retry, { ref: false })
  }

  /** An address that disappears and comes back stays usable: its listener is closed only for another one. */
  async #moveTo(address: string): Promise<void> {
    const { port, host, log } = this.#options
    const previous = this.#gateway
    if (previous?.address === address || address === host) return
    this.#gateway = { address, listening: await listen(this.#app(), { host: address, port }) }
    log('info', 'sandboxes reach this server at the address of their network', { address, port })
    await previous?.listening.close()
  }

  #app() {
    const { handlers, identify, log, telemetry: { audit, openTrail, traces } = {} } = this.#options
    const options = { openapi: sandboxServerOpenApi, identify, auditCaller, audit, traces, log }
    return createApp(sandboxRoutes, handlers, { ...options, ...(openTrail && { openTrail }) })
  }
}
