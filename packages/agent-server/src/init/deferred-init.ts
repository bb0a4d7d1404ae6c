import { hash } from 'node:crypto'
import {
  type InitRequest,
  type InitState,
  invalid,
  type Log,
  must,
  Problem,
  type Secret,
} from '@slipway/protocol'
import type { Config } from '../config/config.ts'
import { withInit } from './merge-config.ts'

/** What answers while the settings are not there. */
const always: ReadonlySet<string> = new Set(['', '/alive', '/health', '/ready', '/server_info', '/api/init'])

interface Options<P> {
  readonly config: Config
  /** Others than this machine reach the server: without keys it must not open. */
  readonly isExposed: boolean
  readonly log: Log
  open(config: Config): Promise<P>
}

/**
 * A server's way from its start to its parts: at once, or, when it waits for its settings (wire 1.21), as soon as somebody has
 * given them. They are kept in memory only: after a restart it waits again.
 */
export class Init<P extends AsyncDisposable> implements AsyncDisposable {
  readonly #options: Options<P>
  #config: Config
  #parts: P | undefined
  /** What was given, as a digest, and what comes of it. */
  #given: { readonly digest: string; readonly opening: Promise<void> } | undefined
  #error: string | undefined

  constructor(options: Options<P>) {
    this.#options = options
    this.#config = options.config
  }

  get state(): InitState {
    if (this.#parts !== undefined) return 'ready'
    return this.#given === undefined ? 'dormant' : 'initializing'
  }

  get status(): { readonly state: InitState; readonly error?: string } {
    return { state: this.state, ...(this.#error === undefined ? {} : { error: this.#error }) }
  }

  /** What was made of the settings; they must be there. */
  get parts(): P {
    return must(this.#parts, 'what is made of the settings')
  }

  /** The session keys; undefined when they are still to come. */
  get keys(): readonly Secret[] | undefined {
    const { isDeferred, initKey } = this.#options.config
    return isDeferred && this.#parts === undefined && initKey !== undefined ? undefined : this.#config.keys
  }

  get allowedOrigins(): readonly string[] {
    return this.#config.allowedOrigins
  }

  /** Throws a Problem `unavailable` for a path that needs the settings as long as they are not there. */
  gate(path: string): void {
    if (this.#parts !== undefined || always.has(path.replace(/\/+$/, ''))) return
    throw new Problem('unavailable', 'The server waits for its settings')
  }

  /** Opens the parts with the settings of the environment alone. */
  async start(): Promise<void> {
    this.#parts = await this.#options.open(this.#config)
  }

  /**
   * Opens the parts with what is given; the very same again waits for the same. A Problem `bad_request` when something else was
   * given already, `unavailable` when nothing could be made of it: then something may be given again.
   */
  async give(request: InitRequest): Promise<void> {
    const digest = hash('sha256', JSON.stringify(request, inOrder))
    if (this.#given === undefined) {
      const config = withInit(this.#options.config, request)
      if (config.keys.length === 0 && this.#options.isExposed)
        throw invalid(
          ['body', 'session_api_keys'],
          'This server is reached from other machines, so it needs a key',
        )
      this.#given = { digest, opening: this.#open(config) }
    } else if (this.#given.digest !== digest)
      throw new Problem('bad_request', 'The server has got its settings already')
    await this.#given.opening
  }

  /** Lets the parts go. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#given?.opening.catch(() => {})
    await this.#parts?.[Symbol.asyncDispose]()
  }

  async #open(config: Config): Promise<void> {
    this.#error = undefined
    try {
      const parts = await this.#options.open(config)
      this.#config = config
      this.#parts = parts
    } catch (error) {
      this.#given = undefined
      this.#error = 'The parts of the server could not be opened with these settings.'
      this.#options.log('error', 'the settings that were given do not do', { error: String(error) })
      throw new Problem('unavailable', this.#error)
    }
  }
}

/** Members in order of their names, so that the same settings have the same text. */
function inOrder(_name: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)))
}
