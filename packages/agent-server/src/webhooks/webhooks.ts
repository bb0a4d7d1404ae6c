import { createHash } from 'node:crypto'
import { Counts, type Log, type Secret, type WebhookSpec } from '@slipway/protocol'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { Delivery } from './delivery.ts'
import { Receiver } from './receiver.ts'

const maxEvents = 100
const gatherMs = 50
const firstRetryMs = 1_000
const maxRetryMs = 60_000
const timeoutMs = 30_000
const flushMs = 3_000

export interface WebhookOptions {
  readonly storage: Pick<Storage, 'log' | 'conversations' | 'deliveries'>
  readonly receivers: readonly WebhookSpec[]
  /** ConversationInfo as the REST interface answers it, `id` included. */
  readonly info: (record: ConversationRecord) => Promise<unknown>
  /** Sent as X-Session-API-Key unless a receiver's own headers have one. */
  readonly sessionKey: Secret | undefined
  readonly fetch: typeof fetch
  readonly log: Log
  /** Milliseconds that only grow. */
  readonly now?: () => number
  readonly random?: () => number
}

/**
 * Tells receivers outside what is in the logs: `POST {base}/events/{conversation hex}` with a JSON array of the stored bytes, and
 * `POST {base}/conversations` with ConversationInfo.
 *
 * Promises, for each receiver:
 * - Every event is sent at least once, those of a conversation in order of position; nothing is dropped however long the
 *   receiver is away, and what was not acknowledged (2xx) before the process died is sent by the next one.
 * - `X-Slipway-After` is the position before the first event of the body, so that a receiver can leave out what it has. One
 *   that answers 409 with `{"head": n}` is sent what is after `n`.
 * - A conversation is told of when it is new (before its events), when its title, tags or status changed, and when it was
 *   removed (`execution_status` `deleting`); changes in quick succession are told of once.
 * - No receiver and no conversation waits for another that fails.
 */
export class Webhooks implements AsyncDisposable {
  /** What became of requests. */
  readonly requests = new Counts('outcome')
  readonly #options: WebhookOptions
  #receivers: Receiver[] = []

  constructor(options: WebhookOptions) {
    this.#options = options
  }

  /** Conversations that a receiver is being told of, or that wait after a failure. */
  get pending(): number {
    return this.#receivers.reduce((sum, receiver) => sum + receiver.pending, 0)
  }

  start(): void {
    if (this.#receivers.length > 0) return
    // One address twice would have one cursor, so it is one receiver.
    const byId = new Map(this.#options.receivers.map((spec) => [receiverId(spec.base_url), spec]))
    this.#receivers = [...byId].map(([id, spec]) => this.#open(id, spec))
  }

  /** Sends what can be sent now, for a few seconds at most. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#receivers.map((receiver) => receiver.close(flushMs)))
    this.#receivers = []
  }

  #counted(fetch: WebhookOptions['fetch']): WebhookOptions['fetch'] {
    return async (input, init) => {
      try {
        const response = await fetch(input, init)
        this.requests.add({ outcome: response.ok ? 'taken' : 'refused' })
        return response
      } catch (error) {
        this.requests.add({ outcome: 'unreachable' })
        throw error
      }
    }
  }

  #open(receiver: string, spec: WebhookSpec): Receiver {
    const { storage, info, sessionKey, log } = this.#options
    const fetch = this.#counted(this.#options.fetch)
    const { now = () => performance.now(), random = Math.random } = this.#options
    const own = Object.entries(spec.headers).map(([name, value]) => [name.toLowerCase(), value] as const)
    const { address, headers } = addressOf(spec.base_url)
    const delivery = new Delivery({
      receiver,
      baseUrl: address,
      headers: {
        ...(sessionKey === undefined ? {} : { 'x-session-api-key': sessionKey.open() }),
        ...headers,
        ...Object.fromEntries(own),
      },
      maxEvents: Math.min(maxEvents, spec.event_buffer_size ?? maxEvents),
      timeoutMs,
      storage,
      info,
      fetch,
      log,
    })
    const firstMs = spec.retry_delay === undefined ? firstRetryMs : spec.retry_delay * 1000
    return new Receiver({
      receiver,
      shownUrl: shownUrl(spec.base_url),
      delivery,
      deliveries: storage.deliveries,
      gatherMs: spec.flush_delay === undefined ? gatherMs : spec.flush_delay * 1000,
      times: { firstMs: Math.min(Math.max(1, firstMs), maxRetryMs), maxMs: maxRetryMs, random },
      log,
      now,
    })
  }
}

/** By what the cursors of a receiver are found: its address, which may hold a password, as a digest. */
function receiverId(url: string): string {
  return createHash('sha256').update(url.replace(/\/+$/, '')).digest('hex').slice(0, 32)
}

/** A user and a password in an address are sent as a header: no request may be made of an address that has them. */
function addressOf(baseUrl: string): { address: string; headers: Record<string, string> } {
  const [, open = '', user] = /^(https?:\/\/)([^/?#]*)@/i.exec(baseUrl) ?? []
  if (user === undefined || !URL.canParse(baseUrl))
    return { address: baseUrl.replace(/\/+$/, ''), headers: {} }
  const { username, password } = new URL(baseUrl)
  const credentials = Buffer.from(`${decoded(username)}:${decoded(password)}`)
  return {
    address: baseUrl.replace(`${open}${user}@`, open).replace(/\/+$/, ''),
    headers: { authorization: `Basic ${credentials.toString('base64')}` },
  }
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/** An address without user, password, parameters and fragment. */
function shownUrl(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/^([^/]*\/\/)[^/]*@/, '$1')
}
