import { sandboxServerRoutes } from '@slipway/protocol'
import { Secret } from '@slipway/shared/redaction'
import { RouteCaller } from './route-caller.ts'
import type { SandboxServerInput, SandboxServerOutput, SandboxServerRouteName } from './route-types.ts'

export interface SandboxServerClientOptions {
  /** Base address, `http://127.0.0.1:3000`; a path in it is kept as a prefix. */
  readonly url: string
  /** Sent as `Authorization: Bearer`. */
  readonly apiKey?: Secret | string | undefined
  readonly fetch?: typeof globalThis.fetch
}

/**
 * Typed calls of a sandbox server. Both methods reject with a `CallError` when the server refuses, with a `ConnectionError` when
 * the server cannot be reached, and with the signal's reason when the signal aborts.
 */
export class SandboxServerClient {
  readonly #caller: RouteCaller

  /** Throws a Problem `bad_request` when `url` is no http or https address. */
  constructor({ url, apiKey, fetch }: SandboxServerClientOptions) {
    const key = typeof apiKey === 'string' ? new Secret(apiKey) : apiKey
    this.#caller = new RouteCaller({
      url,
      keyHeader: () => key && ['authorization', `Bearer ${key.reveal()}`],
      startedBy: 'slipway sandbox-server',
      fetch,
    })
  }

  /** The base address, without a slash at its end. */
  get url(): string {
    return this.#caller.url
  }

  /** Calls a route and reads its answer: JSON as a value (as the server sent it, not checked again), the rest as text. */
  async call<N extends SandboxServerRouteName>(
    name: N,
    input: SandboxServerInput<N>,
  ): Promise<SandboxServerOutput<N>> {
    return await this.#caller.call(sandboxServerRoutes[name], input)
  }

  /** Calls a route and answers the successful response with its body unread: for streams and for raw JSON text. */
  async open<N extends SandboxServerRouteName>(name: N, input: SandboxServerInput<N>): Promise<Response> {
    return await this.#caller.open(sandboxServerRoutes[name], input)
  }
}
