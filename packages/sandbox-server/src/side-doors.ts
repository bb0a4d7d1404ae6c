import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { type AppOptions, app, type Handlers, type Listening, listen } from '@slipway/http'
import { controlOpenApi, controlRoutes, type Log } from '@slipway/protocol'
import type { Backend } from './backend.ts'

const { receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret } = controlRoutes
/** What sandboxes call, each with its session key. */
const insideRoutes = { receiveConversation, receiveEvents, listSandboxSecrets, getSandboxSecret }
const retryMs = 2_000

/** The socket by which sandboxes without a network reach this server; alone in its folder, which they see. */
export function socketOf(doorDirectory: string): string {
  return join(doorDirectory, 'host.sock')
}

interface DoorOptions {
  readonly handlers: Handlers<typeof insideRoutes>
  readonly identify: NonNullable<AppOptions['identify']>
  readonly backends: ReadonlyMap<string, Backend>
  /** Where the server itself listens. */
  readonly host: string
  readonly port: number
  readonly doorDirectory: string
  readonly log: Log
}

/**
 * Further listeners for sandboxes that cannot reach the server's own address: a Unix socket for those without a network, and
 * the address of a backend's network. They serve what sandboxes call and nothing else.
 */
export class SideDoors implements AsyncDisposable {
  readonly #options: DoorOptions
  readonly #open: Listening[] = []
  #timer: NodeJS.Timeout | undefined
  #opening: Promise<void>
  #isClosed = false
  /** Said once. */
  #trouble: string | undefined

  constructor(options: DoorOptions) {
    this.#options = options
    this.#opening = this.#openAll()
  }

  /** The socket is there when this resolves; an address of a network comes when the backend has one. */
  async settled(): Promise<void> {
    await this.#opening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#opening
    await Promise.all(this.#open.map((listening) => listening.close()))
  }

  async #openAll(): Promise<void> {
    const { backends, doorDirectory, host } = this.#options
    if (backends.has('process')) await this.#openSocket(doorDirectory)
    const backend = [...backends.values()].find((one) => one.gatewayAddress !== undefined)
    const isEverywhere = host === '0.0.0.0' || host === '::'
    if (backend?.gatewayAddress === undefined || isEverywhere) return
    await this.#openGateway(backend.gatewayAddress.bind(backend))
  }

  async #openSocket(directory: string): Promise<void> {
    const { log } = this.#options
    try {
      await mkdir(directory, { recursive: true, mode: 0o700 })
      const socketPath = socketOf(directory)
      this.#open.push(await listen(this.#app(), { socketPath }))
      // Sandboxes may have users of their own. Who can enter the folder is up to the folder, and a key is asked for.
      await chmod(socketPath, 0o666)
    } catch (error) {
      log('warn', 'sandboxes without a network cannot reach this server', {
        error: error instanceof Error ? error.message : String(error),
      })
    }
  }

  /** Some engines make their network with the first sandbox, and some are not there yet. */
  async #openGateway(find: () => Promise<string | undefined>): Promise<void> {
    const { port, host, log } = this.#options
    try {
      const address = await find()
      if (this.#isClosed || address === host) return
      if (address !== undefined) {
        this.#open.push(await listen(this.#app(), { host: address, port }))
        log('info', 'sandboxes reach this server at the address of their network', { address, port })
        return
      }
    } catch (error) {
      const text = error instanceof Error ? error.message : String(error)
      if (text !== this.#trouble) log('warn', 'sandboxes cannot reach this server yet', { error: text })
      this.#trouble = text
    }
    if (this.#isClosed) return
    this.#timer = setTimeout(() => {
      this.#opening = this.#openGateway(find)
    }, retryMs).unref()
  }

  #app() {
    const { handlers, identify, log } = this.#options
    return app(insideRoutes, handlers, { openapi: controlOpenApi, identify, log })
  }
}
