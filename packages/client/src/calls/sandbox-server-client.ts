import { controlRoutes, Secret } from '@slipway/protocol'
import { Calls } from './route-caller.ts'
import type { ControlInput, ControlOutput, ControlRouteName } from './route-types.ts'

export interface ControlClientOptions {
  /** Base address, `http://127.0.0.1:3000`; a path in it is kept as a prefix. */
  readonly url: string
  /** Sent as `Authorization: Bearer`. */
  readonly apiKey?: Secret | string | undefined
  readonly fetch?: typeof globalThis.fetch
}

/**
 * Typed calls of a sandbox server. Both methods reject with a `CallError` when the server refuses, with a `NoAnswerError` when
 * nobody answers, and with the signal's reason when the signal aborts.
 */
export class ControlClient {
  readonly #calls: Calls

  /** Throws a Problem `bad_request` when `url` is no http or https address. */
  constructor({ url, apiKey, fetch }: ControlClientOptions) {
    const key = typeof apiKey === 'string' ? new Secret(apiKey) : apiKey
    this.#calls = new Calls({
      url,
      keyHeader: () => key && ['authorization', `Bearer ${key.open()}`],
      startedBy: 'slipway sandbox-server',
      fetch,
    })
  }

  /** The base address, without a slash at its end. */
  get url(): string {
    return this.#calls.url
  }

  /** Calls a route and reads its answer: JSON as a value (as the server sent it, not checked again), the rest as text. */
  async call<N extends ControlRouteName>(name: N, input: ControlInput<N>): Promise<ControlOutput<N>> {
    return await this.#calls.call(controlRoutes[name], input)
  }

  /** Calls a route and answers the successful response with its body unread: for streams and for raw JSON text. */
  async open<N extends ControlRouteName>(name: N, input: ControlInput<N>): Promise<Response> {
    return await this.#calls.open(controlRoutes[name], input)
  }
}
