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

/** Paths that answer before the server is initialized. */
const alwaysAvailable = /^(\/(alive|health|ready|server_info|api\/init))?\/*$/

interface DeferredInitOptions<P> {
  readonly config: Config
  /** Whether other machines reach the server: without keys it must not open. */
  readonly isExposed: boolean
  readonly log: LogFunction
  openServices(config: Config): Promise<P>
}

/**
 * Opens the services of a server at once, or of a deferred one (wire 1.21) on its init settings, which are in
 * memory only: after a restart it waits again.
 */
export class DeferredInit<P extends AsyncDisposable> implements AsyncDisposable {
  readonly #options: DeferredInitOptions<P>
  #config: Config
  #services: P | undefined
  /** Digest of the accepted init settings, and the opening with them. */
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

  /** The opened services; throws while there are none. */
  get services(): P {
    return must(this.#services, 'the services')
  }

  /** The session keys; undefined before the init settings arrive. */
  get keys(): readonly Secret[] | undefined {
    const { isDeferred, initKey } = this.#options.config
    return isDeferred && this.#services === undefined && initKey !== undefined
      ? undefined
      : this.#config.sessionKeys
  }

  get allowedOrigins(): readonly string[] {
    return this.#config.allowedOrigins
  }

  /** Throws a Problem `unavailable` for a path that needs init settings while they are missing. */
  assertReady(path: string): void {
    if (this.#services !== undefined || alwaysAvailable.test(path)) return
    throw new Problem('unavailable', 'The server waits for its settings')
  }

  /** Opens the services of a server that is not deferred. */
  async start(): Promise<void> {
    this.#services = await this.#options.openServices(this.#config)
  }

  /**
   * Opens the services with init settings; equal settings share one opening. Problems: `bad_request` for other
   * settings than the accepted ones, `unavailable` for a failed opening, which may be repeated.
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
      this.#options.log('error', 'invalid init settings', { error: String(error) })
      throw new Problem('unavailable', this.#error)
    }
  }
}

/** Sorts members by name, so that equal settings have equal JSON. */
function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
