import { hash } from 'node:crypto'
import {
  type InitRequest,
  type InitState,
  invalidInput,
  type LogFunction,
  must,
  Problem,
} from '@slipway/protocol'
import type { Secret } from '@slipway/shared/redaction'
import type { Config } from '../config/config.ts'
import { mergeInitRequest } from './merge-config.ts'

/** What answers while the settings are not there. */
const alwaysAvailable: ReadonlySet<string> = new Set([
  '',
  '/alive',
  '/health',
  '/ready',
  '/server_info',
  '/api/init',
])

interface DeferredInitOptions<P> {
  readonly config: Config
  /** Others than this machine reach the server: without keys it must not open. */
  readonly isExposed: boolean
  readonly log: LogFunction
  openServices(config: Config): Promise<P>
}

/**
 * A server's way from its start to its parts: at once, or, when it waits for its settings (wire 1.21), as soon as somebody has
 * given them. They are kept in memory only: after a restart it waits again.
 */
export class DeferredInit<P extends AsyncDisposable> implements AsyncDisposable {
  readonly #options: DeferredInitOptions<P>
  #config: Config
  #services: P | undefined
  /** What was given, as a digest, and what comes of it. */
  #accepted: { readonly digest: string; readonly opening: Promise<void> } | undefined
  #error: string | undefined

  constructor(options: DeferredInitOptions<P>) {
    this.#options = options
    this.#config = options.config
  }

  get state(): InitState {
    if (this.#services !== undefined) return 'ready'
    return this.#accepted === undefined ? 'dormant' : 'initializing'
  }

  get status(): { readonly state: InitState; readonly error?: string } {
    return { state: this.state, ...(this.#error === undefined ? {} : { error: this.#error }) }
  }

  /** What was made of the settings; they must be there. */
  get services(): P {
    return must(this.#services, 'what is made of the settings')
  }

  /** The session keys; undefined when they are still to come. */
  get keys(): readonly Secret[] | undefined {
    const { isDeferred, initKey } = this.#options.config
    return isDeferred && this.#services === undefined && initKey !== undefined
      ? undefined
      : this.#config.sessionKeys
  }

  get allowedOrigins(): readonly string[] {
    return this.#config.allowedOrigins
  }

  /** Throws a Problem `unavailable` for a path that needs the settings as long as they are not there. */
  assertReady(path: string): void {
    if (this.#services !== undefined || alwaysAvailable.has(path.replace(/\/+$/, ''))) return
    throw new Problem('unavailable', 'The server waits for its settings')
  }

  /** Opens the parts with the settings of the environment alone. */
  async start(): Promise<void> {
    this.#services = await this.#options.openServices(this.#config)
  }

  /**
   * Opens the parts with what is given; the very same again waits for the same. A Problem `bad_request` when something else was
   * given already, `unavailable` when nothing could be made of it: then something may be given again.
   */
  async initialize(request: InitRequest): Promise<void> {
    const digest = hash('sha256', JSON.stringify(request, sortMembers))
    if (this.#accepted === undefined) {
      const config = mergeInitRequest(this.#options.config, request)
      if (config.sessionKeys.length === 0 && this.#options.isExposed)
        throw invalidInput(
          ['body', 'session_api_keys'],
          'This server is reached from other machines, so it needs a key',
        )
      this.#accepted = { digest, opening: this.#open(config) }
    } else if (this.#accepted.digest !== digest)
      throw new Problem('bad_request', 'The server has got its settings already')
    await this.#accepted.opening
  }

  /** Lets the parts go. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#accepted?.opening.catch(() => {})
    await this.#services?.[Symbol.asyncDispose]()
  }

  async #open(config: Config): Promise<void> {
    this.#error = undefined
    try {
      const services = await this.#options.openServices(config)
      this.#config = config
      this.#services = services
    } catch (error) {
      this.#accepted = undefined
      this.#error = 'The parts of the server could not be opened with these settings.'
      this.#options.log('error', 'the settings that were given do not do', { error: String(error) })
      throw new Problem('unavailable', this.#error)
    }
  }
}

/** Members in order of their names, so that the same settings have the same text. */
function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
