import { hash, timingSafeEqual } from 'node:crypto'
import type { AppOptions } from '@slipway/http'
import {
  type InitRequest,
  type InitState,
  invalidInput,
  type LogFunction,
  must,
  Problem,
  serverFailure,
} from '@slipway/protocol'
import { redactText, Secret } from '@slipway/shared/redaction'
import { errorText } from '@slipway/shared/text'
import type { Config } from '../config/config.ts'
import { mergeInitRequest } from './merge-config.ts'

/** Paths that answer before the server is initialized. */
const alwaysAvailable = /^(\/(alive|health|ready|server_info|openapi\.json|redoc|docs(\/.*)?|api\/init))?\/*$/
const initPath = /^\/api\/init\/*$/

type CheckRequest = NonNullable<AppOptions['checkReady']>

interface DeferredInitOptions<P> {
  readonly config: Config
  /** Whether other machines reach the server: without keys it must not open. */
  readonly isExposed: boolean
  readonly log: LogFunction
  openServer(config: Config): Promise<P>
}

/**
 * Opens a server at once, or of a deferred one (wire 1.21) on its init settings, which are in
 * memory only: after a restart it waits again.
 */
export class DeferredInit<P extends AsyncDisposable> implements AsyncDisposable {
  readonly #options: DeferredInitOptions<P>
  #config: Config
  #server: P | undefined
  /** Digest of the accepted init settings, and the opening with them. */
  #accepted: { readonly digest: string; readonly opening: Promise<void> } | undefined
  #error: string | undefined
  /** The key of init settings that the accepted ones have brought. */
  #deliveredKey: Secret | undefined

  constructor(options: DeferredInitOptions<P>) {
    this.#options = options
    this.#config = options.config
  }

  get state(): InitState {
    if (this.#server !== undefined) return 'ready'
    return this.#accepted === undefined ? 'dormant' : 'initializing'
  }

  get status(): { readonly state: InitState; readonly error: string | null } {
    return { state: this.state, error: this.#error ?? null }
  }

  /** The opened server; throws while there is none. */
  get server(): P {
    return must(this.#server, 'the server')
  }

  /** The session keys; undefined before the init settings arrive, where the start has none. */
  get keys(): readonly Secret[] | undefined {
    const { isDeferred, initKey } = this.#options.config
    const { sessionKeys } = this.#config
    const isUnknown = isDeferred && this.#server === undefined && initKey !== undefined
    return isUnknown && sessionKeys.length === 0 ? undefined : sessionKeys
  }

  get allowedOrigins(): Config['allowedOrigins'] {
    return this.#config.allowedOrigins
  }

  /** See `Config.webUrl`. */
  get webUrl(): string | undefined {
    return this.#config.webUrl
  }

  /** See `Config.basePath`. */
  get basePath(): string {
    return this.#config.basePath
  }

  /** A Problem `unauthorized` unless the key is that of the init settings; without any, all are accepted. */
  authorize(key: string | undefined): void {
    const keys = [this.#bootKey, this.#deliveredKey].filter((one) => one !== undefined)
    if (keys.length > 0 && !keys.some((one) => isSameKey(one.reveal(), key)))
      throw new Problem('unauthorized', 'Unauthorized')
  }

  /**
   * Called before a request is read. Problems: `unauthorized` without the key of the init settings, or of the
   * start; `not_found` for init settings that the server does not wait for; `unavailable` for a path that
   * needs init settings while they are missing.
   */
  readonly checkRequest: CheckRequest = (path, { method, headers }) => {
    if (method === 'POST' && initPath.test(path)) {
      this.authorize(asText(headers['x-init-api-key']))
      this.assertDeferred()
    }
    if (this.#server !== undefined || alwaysAvailable.test(path)) return
    const { sessionKeys } = this.#options.config
    const key = asText(headers['x-session-api-key'])
    const isKnown = sessionKeys.some((one) => isSameKey(one.reveal(), key))
    if (sessionKeys.length > 0 && !isKnown && headers.upgrade === undefined)
      throw new Problem('unauthorized', 'Unauthorized')
    throw serverFailure(
      'unavailable',
      `503: The server is in deferred-init state '${this.state}'; call POST /api/init first`,
    )
  }

  /** A Problem `not_found` unless the server was started to wait for init settings. */
  assertDeferred(): void {
    if (!this.#options.config.isDeferred)
      throw new Problem(
        'not_found',
        'The server was not started to wait for its settings (deferred_init=True)',
      )
  }

  /** Opens a server that is not deferred. */
  async start(): Promise<void> {
    this.#server = await this.#options.openServer(this.#config)
  }

  /**
   * Opens the server with init settings; equal settings share one opening. Problems: `bad_request` for
   * other settings than the accepted ones, `unauthorized` for those with the key of the start where another
   * one was delivered, `run_failed` for a failed opening, which may be repeated.
   */
  async initialize(request: InitRequest, key?: string): Promise<void> {
    const digest = hash('sha256', JSON.stringify(request, sortMembers))
    if (this.#accepted === undefined) {
      const config = mergeInitRequest(this.#options.config, request)
      if (config.sessionKeys.length === 0 && this.#options.isExposed)
        throw invalidInput(
          ['body', 'session_api_keys'],
          'This server is reached from other machines, so it needs a key',
        )
      this.#accepted = { digest, opening: this.#open(config, request) }
    } else if (this.#accepted.digest !== digest) {
      if (this.#deliveredKey !== undefined && !isSameKey(this.#deliveredKey.reveal(), key))
        throw new Problem('unauthorized', 'Unauthorized')
      throw new Problem('bad_request', `The server has its settings (server already in state: ${this.state})`)
    }
    await this.#accepted.opening
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#accepted?.opening.catch(() => {})
    await this.#server?.[Symbol.asyncDispose]()
  }

  /** The key of init settings at the start. */
  get #bootKey(): Secret | undefined {
    const { initKey, isDeferred, sessionKeys } = this.#options.config
    return initKey ?? (isDeferred ? undefined : sessionKeys[0])
  }

  async #open(config: Config, request: InitRequest): Promise<void> {
    this.#error = undefined
    try {
      const server = await this.#options.openServer(config)
      this.#config = config
      this.#server = server
    } catch (error) {
      this.#accepted = undefined
      const reason = errorText(error)
      this.#error = `The server could not be opened with these settings: ${redactText(reason)}`
      this.#options.log('error', 'invalid init settings', { error: String(error) })
      throw serverFailure('run_failed', `500: ${this.#error}`)
    }
    const { secret_key, session_api_keys } = request
    const delivered = secret_key ?? (this.#bootKey === undefined ? session_api_keys?.[0] : undefined)
    this.#deliveredKey = delivered === undefined ? undefined : new Secret(delivered)
  }
}

/** Compares in constant time. */
function isSameKey(key: string, providedKey: string | undefined): boolean {
  return providedKey !== undefined && timingSafeEqual(digestOf(key), digestOf(providedKey))
}

function digestOf(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}

function asText(header: string | string[] | undefined): string | undefined {
  return typeof header === 'string' ? header : undefined
}

/** Sorts members by name, so that equal settings have equal JSON. */
function sortMembers(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
