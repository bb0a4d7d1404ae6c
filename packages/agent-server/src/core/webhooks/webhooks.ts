import { hash } from 'node:crypto'
import type { LogFunction, WebhookSpec } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'
import type { Secret } from '@slipway/shared/redaction'
import type { Clock } from '@slipway/shared/time'
import { decodePercent } from '@slipway/shared/url'
import type { ConversationRecord, Storage } from '@slipway/storage'
import { WebhookDelivery } from './delivery.ts'
import { postJson } from './post.ts'
import { WebhookReceiver } from './receiver.ts'

const maxEvents = 100
const batchDelayMs = 50
const firstRetryMs = 1_000
const maxRetryMs = 60_000
const requestTimeoutMs = 30_000
const flushTimeoutMs = 3_000
/** At the end of the server; what is not sent then follows after its next start. */
const closeTimeoutMs = 1_500

interface WebhooksOptions {
  readonly storage: Pick<Storage, 'log' | 'conversations' | 'deliveries'>
  readonly receivers: readonly WebhookSpec[]
  /** ConversationInfo as the REST interface answers it, `id` included. */
  readonly readInfo: (record: ConversationRecord) => Promise<unknown>
  /** The event `full_state` of a conversation, secrets redacted, for receivers that want it. */
  readonly readSnapshot?: (record: ConversationRecord) => Promise<object>
  /** Sent as X-Session-API-Key unless a receiver's own headers have one. */
  readonly sessionKey: Secret | undefined
  readonly fetch: typeof fetch
  readonly log: LogFunction
  readonly clock: Clock
  readonly random?: () => number
}

/**
 * Sends logs to receivers: `POST {base}/events/{conversation hex}` with a JSON array of the stored bytes, and
 * `POST {base}/conversations` with ConversationInfo. For each receiver:
 * - Every event is sent at least once, in order within its conversation, also after a restart.
 * - `X-Slipway-After` is the position before the first event, `X-Slipway-Cursor` its cursor. A receiver that
 *   answers 409 with `{"head": n, "cursor"?: ...}` gets the events after `n`.
 * - `X-Slipway-Resync: n`, with an announcement: what the receiver has of the conversation after `n` is not
 *   of this log. So a receiver with another history, and each one after an older log was accepted, is told.
 * - A conversation is announced when it is new (before its events), when its title, tags or status changed, and
 *   when it was removed (`execution_status` `deleting`). Quick changes are joined.
 * - A receiver with `full_state` gets snapshots of the state between events, without those two headers.
 * - A failing receiver or conversation does not delay others.
 */
export class Webhooks implements AsyncDisposable {
  readonly requests = createCounter(
    'slipway_webhook_requests_total',
    'Requests to webhook receivers by outcome.',
    'outcome',
  )
  readonly #options: WebhooksOptions
  #receivers: WebhookReceiver[] = []
  #deliveries: WebhookDelivery[] = []
  readonly #closed = new AbortController()

  constructor(options: WebhooksOptions) {
    this.#options = options
  }

  /** Conversations with a running delivery, or that wait after a failure. */
  get pendingCount(): number {
    return this.#receivers.reduce((sum, receiver) => sum + receiver.pendingCount, 0)
  }

  start(): void {
    if (this.#receivers.length > 0) return
    // One address twice would have one cursor, so it is one receiver.
    const byId = new Map(this.#options.receivers.map((spec) => [receiverId(spec.base_url), spec]))
    this.#receivers = [...byId].map(([id, spec]) => this.#openReceiver(id, spec))
  }

  /** Before a conversation is removed: sends what is pending of it, as far as receivers take it soon. */
  async flushBeforeRemoval(record: ConversationRecord): Promise<void> {
    if (this.#receivers.length === 0) return
    await Promise.all(this.#receivers.map((receiver) => receiver.flush(record.id, flushTimeoutMs)))
    const info = (await this.#options.readInfo(record)) as object
    for (const delivery of this.#deliveries) delivery.noteRemoval(record.id, info)
  }

  /** Announces a conversation that a command found as it is; in the background. */
  announce(record: ConversationRecord): void {
    for (const delivery of this.#deliveries)
      delivery.announce(record, this.#closed.signal).catch((error: unknown) => {
        this.#options.log('warn', 'a conversation was not announced', { error: String(error) })
      })
  }

  /** Posts the tokens of a sign-in to each receiver, once; a failure is logged. */
  async postOAuthState(state: object): Promise<void> {
    const body = Buffer.from(JSON.stringify(state))
    const { log, receivers, clock } = this.#options
    for (const spec of receivers) {
      const { address, headers } = this.#endpoint(spec)
      const request = { headers: { ...headers, 'content-type': 'application/json' }, body }
      const options = { ...request, timeoutMs: requestTimeoutMs, clock }
      const url = `${address}/mcp-oauth-state`
      const { kind } = await postJson(this.#options.fetch, url, options, new AbortController().signal)
      if (kind !== 'accepted')
        log('warn', 'a webhook receiver did not take the tokens of an MCP server', { outcome: kind })
    }
  }

  /** Sends what can be sent within a few seconds. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#receivers.map((receiver) => receiver.close(closeTimeoutMs)))
    this.#closed.abort()
    this.#receivers = []
    this.#deliveries = []
  }

  #countRequests(fetch: WebhooksOptions['fetch']): WebhooksOptions['fetch'] {
    return async (input, init) => {
      try {
        const response = await fetch(input, init)
        this.requests.inc({ outcome: response.ok ? 'taken' : 'refused' })
        return response
      } catch (error) {
        this.requests.inc({ outcome: 'unreachable' })
        throw error
      }
    }
  }

  #endpoint(spec: WebhookSpec): { address: string; headers: Record<string, string> } {
    const { sessionKey } = this.#options
    const ownHeaders = Object.entries(spec.headers).map(
      ([name, value]) => [name.toLowerCase(), value] as const,
    )
    const { address, headers } = splitCredentials(spec.base_url)
    const keyHeader = sessionKey === undefined ? {} : { 'x-session-api-key': sessionKey.reveal() }
    return { address, headers: { ...keyHeader, ...headers, ...Object.fromEntries(ownHeaders) } }
  }

  #openReceiver(receiver: string, spec: WebhookSpec): WebhookReceiver {
    const { storage, readInfo, readSnapshot, log } = this.#options
    const fetch = this.#countRequests(this.#options.fetch)
    const { clock, random = Math.random } = this.#options
    const { address, headers } = this.#endpoint(spec)
    const delivery = new WebhookDelivery({
      receiver,
      baseUrl: address,
      headers,
      maxEvents: Math.min(maxEvents, spec.event_buffer_size ?? maxEvents),
      maxBytes: spec.max_batch_bytes,
      timeoutMs: requestTimeoutMs,
      storage,
      readInfo,
      readSnapshot: spec.full_state ? readSnapshot : undefined,
      fetch,
      clock,
      log,
    })
    this.#deliveries.push(delivery)
    const firstMs = spec.retry_delay === undefined ? firstRetryMs : spec.retry_delay * 1000
    return new WebhookReceiver({
      receiver,
      publicUrl: publicUrl(spec.base_url),
      delivery,
      deliveries: storage.deliveries,
      batchDelayMs: spec.flush_delay === undefined ? batchDelayMs : spec.flush_delay * 1000,
      bufferSize: spec.event_buffer_size,
      backoffTimes: { firstMs: Math.min(Math.max(1, firstMs), maxRetryMs), maxMs: maxRetryMs, random },
      log,
      clock,
    })
  }
}

/** Key of a receiver's cursors: the digest of its address, which may contain a password. */
function receiverId(url: string): string {
  return hash('sha256', url.replace(/\/+$/, '')).slice(0, 32)
}

/** User and password of a URL become a header, because fetch refuses such URLs. */
function splitCredentials(baseUrl: string): { address: string; headers: Record<string, string> } {
  const [, scheme = '', userInfo] = /^(https?:\/\/)([^/?#]*)@/i.exec(baseUrl) ?? []
  if (userInfo === undefined || !URL.canParse(baseUrl))
    return { address: baseUrl.replace(/\/+$/, ''), headers: {} }
  const { username, password } = new URL(baseUrl)
  const [user, secret] = [username, password].map((text) => decodePercent(text) ?? text)
  const credentials = Buffer.from(`${user}:${secret}`)
  return {
    address: baseUrl.replace(`${scheme}${userInfo}@`, scheme).replace(/\/+$/, ''),
    headers: { authorization: `Basic ${credentials.toString('base64')}` },
  }
}

/** An address without user, password, parameters and fragment. */
function publicUrl(url: string): string {
  return url.replace(/[?#].*$/s, '').replace(/^([^/]*\/\/)[^/]*@/, '$1')
}
