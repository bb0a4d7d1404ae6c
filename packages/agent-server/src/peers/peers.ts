import type { Reply, Request } from '@slipway/http'
import { type LogFunction, Problem, type Route, type SendMessageRequest } from '@slipway/protocol'
import { createCounter } from '@slipway/shared/metrics'
import type { Secret } from '@slipway/shared/redaction'
import { type ConversationLeases, HeldElsewhere } from '@slipway/storage'
import { ownedConversation } from './owner-routes.ts'

/** Marks a request of another server, which is not passed on again. */
const peerHeader = 'x-slipway-peer'
const passedHeaders = [
  'accept',
  'content-type',
  'idempotency-key',
  'x-openhands-serverconversation-id',
  'x-slipway-wire',
]
const returnedHeaders = ['retry-after', 'x-openhands-serverconversation-id']
/** Between two looks whether the server that is to answer has lost the conversation. */
const watchMs = 500

type Handler = (request: Request<Route>) => Reply | Promise<Reply>

interface PeersOptions {
  readonly leases: ConversationLeases
  readonly key: Secret
  readonly fetch: typeof fetch
  readonly log: LogFunction
}

/**
 * The other servers on the database: passes requests for the owner of a conversation on to it, or takes the
 * conversation when it has none.
 */
export class Peers {
  readonly requests = createCounter(
    'slipway_peer_requests_total',
    'Requests that were passed on to the server that has the conversation, by outcome.',
    'outcome',
  )
  readonly #options: PeersOptions
  /** Conversations with requests in progress here, with their number. */
  readonly #inUse = new Map<string, number>()

  constructor(options: PeersOptions) {
    this.#options = options
  }

  isInUse(conversation: string): boolean {
    return this.#inUse.has(conversation)
  }

  /** The same handlers; requests for conversations of other servers are passed on. */
  wrap<H extends Readonly<Record<string, unknown>>>(handlers: H): H {
    const wrapped = Object.entries(handlers).map(([route, handler]) => {
      const handle = handler as Handler
      return [route, (request: Request<Route>) => this.#route(route, request, handle)]
    })
    return Object.fromEntries(wrapped) // all names of the table
  }

  /** Sends and runs a message on the server that has the conversation. */
  async sendMessage(
    conversation: string,
    message: SendMessageRequest,
    sendHere: () => Promise<void>,
  ): Promise<void> {
    const url = await this.#findOwner(conversation)
    if (url === undefined) return await this.#use(conversation, sendHere)
    const response = await this.#fetch(conversation, url, {
      path: `/api/conversations/${conversation}/events`,
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: Buffer.from(JSON.stringify(message)),
    })
    if (response.ok) return await response.body?.cancel()
    const { detail }: { detail?: unknown } = await response.json().catch(() => ({}))
    const text = typeof detail === 'string' ? detail : 'The message was refused'
    throw new Problem(response.status === 503 ? 'unavailable' : 'conflict', text)
  }

  #route(route: string, request: Request<Route>, handle: Handler): Reply | Promise<Reply> {
    const conversation = ownedConversation(route, request)
    return conversation === undefined ? handle(request) : this.#routeTo(conversation, request, handle)
  }

  async #routeTo(conversation: string, request: Request<Route>, handle: Handler): Promise<Reply> {
    const url = await this.#findOwner(conversation)
    if (url === undefined) return await this.#use(conversation, async () => await handle(request))
    if (request.header(peerHeader) !== undefined) throw new HeldElsewhere()
    const headers = passedHeaders.flatMap((name) => {
      const value = request.header(name)
      return value === undefined ? [] : [[name, value] as const]
    })
    const { method, rawBody, signal } = request
    const response = await this.#fetch(conversation, url, {
      ...{ path: request.url, method, headers: Object.fromEntries(headers), signal },
      ...(rawBody.length === 0 ? {} : { body: rawBody }),
    })
    return await toReply(response)
  }

  /** Undefined when this server has the conversation now. */
  async #findOwner(conversation: string): Promise<string | undefined> {
    const holder = await this.#options.leases.acquire(conversation)
    if (holder.isOwn) return undefined
    if (holder.url === undefined) throw new HeldElsewhere()
    return holder.url
  }

  async #use<T>(conversation: string, work: () => Promise<T>): Promise<T> {
    this.#inUse.set(conversation, (this.#inUse.get(conversation) ?? 0) + 1)
    try {
      return await work()
    } finally {
      const rest = (this.#inUse.get(conversation) ?? 1) - 1
      if (rest === 0) this.#inUse.delete(conversation)
      else this.#inUse.set(conversation, rest)
    }
  }

  /** A frozen server accepts connections and never answers: the wait ends when its lease does. */
  async #fetch(
    conversation: string,
    url: string,
    request: {
      readonly path: string
      readonly method: string
      readonly headers: Readonly<Record<string, string>>
      readonly body?: Buffer
      readonly signal?: AbortSignal
    },
  ): Promise<Response> {
    const { leases, key, fetch, log } = this.#options
    const { path, method, headers, body, signal } = request
    const lost = new AbortController()
    const watch = setInterval(async () => {
      const holder = await leases.acquire(conversation).catch(() => undefined)
      if (holder !== undefined && (holder.isOwn || holder.url !== url)) lost.abort()
    }, watchMs)
    try {
      const response = await fetch(url.replace(/\/+$/, '') + path, {
        method,
        headers: { ...headers, [peerHeader]: '1', 'x-session-api-key': key.reveal() },
        signal: signal === undefined ? lost.signal : AbortSignal.any([signal, lost.signal]),
        ...(body === undefined ? {} : { body: new Uint8Array(body) }),
      })
      this.requests.inc({ outcome: response.ok ? 'answered' : 'refused' })
      return response
    } catch (error) {
      signal?.throwIfAborted()
      this.requests.inc({ outcome: 'failed' })
      log('warn', 'the server that has a conversation does not answer', {
        conversation,
        error: String(error),
      })
      throw new HeldElsewhere()
    } finally {
      clearInterval(watch)
    }
  }
}

async function toReply(response: Response): Promise<Reply> {
  const { status, body } = response
  const contentType = response.headers.get('content-type') ?? 'application/json'
  const headers = Object.fromEntries(
    returnedHeaders.flatMap((name) => {
      const value = response.headers.get(name)
      return value === null ? [] : [[name, value] as const]
    }),
  )
  if (body !== null && /^text\/event-stream\b/i.test(contentType))
    return { status, headers, contentType, chunks: chunksOf(body) }
  return { status, headers, contentType, bytes: Buffer.from(await response.arrayBuffer()) }
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const chunk of body) yield Buffer.from(chunk)
}
