import { setTimeout as sleep } from 'node:timers/promises'
import { type Client, ConnectionError } from '@slipway/client'

/** A server that does not answer for this long is away: who waits for it is told. */
export const patienceMs = 30_000
const retryMs = 250

interface ServerLinkOptions {
  readonly client: Client
  /** Starts the private server again when it has died. */
  readonly revive: () => Promise<void>
  readonly signal: AbortSignal
}

/** Calls of a server that may be restarted meanwhile. */
export class ServerLink {
  readonly client: Client
  readonly signal: AbortSignal
  readonly #revive: () => Promise<void>
  #reviving: Promise<void> | undefined

  constructor({ client, revive, signal }: ServerLinkOptions) {
    this.client = client
    this.signal = signal
    this.#revive = revive
  }

  /** Repeats a request, which must be safe to repeat, until the server answers or is away for too long. */
  async call<T>(request: (client: Client) => Promise<T>): Promise<T> {
    const deadline = Date.now() + patienceMs
    for (;;) {
      try {
        return await request(this.client)
      } catch (error) {
        if (!(error instanceof ConnectionError) || Date.now() > deadline) throw error
        await this.revive()
        await sleep(retryMs, undefined, { signal: this.signal })
      }
    }
  }

  /** One start at a time; its failure shows in the next request. */
  revive(): Promise<void> {
    this.#reviving ??= this.#revive()
      .catch(() => {})
      .finally(() => {
        this.#reviving = undefined
      })
    return this.#reviving
  }
}
