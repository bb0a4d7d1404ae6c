import { randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import type { Reply, Request } from '@slipway/http'
import {
  agentServerRoutes,
  buildRoutePath,
  type conversationWorkspaceRoutes,
  type LogFunction,
  must,
  Problem,
  type Route,
  type RouteTable,
  type SendMessageRequest,
} from '@slipway/protocol'
import { noAnswerHeader } from '@slipway/protocol/client'
import { readJson, readLimited } from '@slipway/shared/async'
import { isRecord } from '@slipway/shared/json'
import { createCounter } from '@slipway/shared/metrics'
import type { Secret } from '@slipway/shared/redaction'
import { type Clock, repeat } from '@slipway/shared/time'
import { type ConversationLeases, HeldElsewhereError } from '@slipway/storage'
import { answersQuestions } from './no-answer.ts'
import { ownedConversation } from './owner-routes.ts'
import { type PageTokens, peerTokenHeader } from './page-tokens.ts'

const routes: RouteTable = agentServerRoutes
/** Marks a request of another server, which is not passed on again. */
const peerHeader = 'x-slipway-peer'
const passedHeaders = [
  'accept',
  'content-type',
  'idempotency-key',
  'if-none-match',
  'if-range',
  'range',
  'x-openhands-serverconversation-id',
  'x-slipway-wire',
]
/** Of this server, or of the connection to the other one. */
const ownHeaders =
  /^(?:connection|content-encoding|content-type|date|keep-alive|server|transfer-encoding|x-request-id|trace.*|access-control-.*)$/
/** Longer answers are passed on as they arrive. */
const maxBufferedBytes = 1024 * 1024
/** Its body is not read before its handler runs. */
const uploadRoute: keyof typeof conversationWorkspaceRoutes = 'uploadConversationFile'
/** Between two looks whether the server that is to answer has lost the conversation. */
const watchMs = 500

type Upload = Awaited<ReturnType<Request<Route>['upload']>>
type Handler = (request: Request<Route>) => Reply | Promise<Reply>

interface PeersOptions {
  readonly leases: ConversationLeases
  /** The key that all servers accept. */
  readonly key: Secret
  readonly tickets: Pick<PageTokens, 'createPeerToken'>
  readonly fetch: typeof fetch
  readonly clock: Clock
  readonly log: LogFunction
  /** Continues the run of a conversation that this server has taken over from one that is gone. */
  readonly continueRun: (conversation: string) => Promise<void>
  readonly exists: (conversation: string) => Promise<boolean>
}

/**
 * The other servers on the database: passes requests for the owner of a conversation on to it, or takes the
 * conversation without one.
 *
 * The owner must serve what was authorized here and nothing else. An address that is passed on is therefore
 * built from the route and its parameters; a request that a ticket or a cookie has authorized is sent with
 * that token, which the owner checks itself; the key of the peers goes with those of callers with a key only.
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
      path: buildRoutePath(agentServerRoutes.sendMessage, { conversation_id: conversation }),
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(message),
    })
    if (response.ok) return await response.body?.cancel()
    const body = await readJson(response, maxBufferedBytes).catch(() => undefined)
    const detail = isRecord(body) ? body.detail : undefined
    const text = typeof detail === 'string' ? detail : 'The message was refused'
    throw new Problem(response.status === 503 ? 'unavailable' : 'conflict', text)
  }

  #route(route: string, request: Request<Route>, handle: Handler): Reply | Promise<Reply> {
    const conversation = ownedConversation(route, request)
    return conversation === undefined ? handle(request) : this.#routeTo(route, conversation, request, handle)
  }

  async #routeTo(
    route: string,
    conversation: string,
    request: Request<Route>,
    handle: Handler,
  ): Promise<Reply> {
    const path = buildAddress(route, request)
    const url = await this.#findOwner(conversation)
    if (url === undefined) return await this.#use(conversation, async () => await handle(request))
    if (request.header(peerHeader) !== undefined) throw new HeldElsewhereError()
    const headers = passedHeaders.flatMap((name) => {
      const value = request.header(name)
      return value === undefined ? [] : [[name, value] as const]
    })
    if (!answersQuestions(request)) headers.push([noAnswerHeader, '1'])
    const { method, rawBody, signal } = request
    const common = { path, method, signal, token: this.#tokenOf(route, request) }
    if (route === uploadRoute) {
      const { body, contentType, failure } = encodeUpload(await request.upload())
      const passed = { ...Object.fromEntries(headers), 'content-type': contentType }
      const response = await this.#fetch(conversation, url, { ...common, headers: passed, body }).catch(
        (error: unknown) => {
          // A file that is too large is the caller's fault, not that of the other server.
          throw failure() ?? error
        },
      )
      return await toReply(response)
    }
    const body = rawBody.length === 0 ? {} : { body: new Uint8Array(rawBody) }
    return await toReply(
      await this.#fetch(conversation, url, { ...common, headers: Object.fromEntries(headers), ...body }),
    )
  }

  /** What has authorized the request instead of a key. */
  #tokenOf(route: string, { url, header, peer }: Request<Route>): string | undefined {
    if (routes[route]?.pages !== 'pass') return undefined
    return this.#options.tickets.createPeerToken(url, header, peer)
  }

  /** Undefined when this server has the conversation now. */
  async #findOwner(conversation: string): Promise<string | undefined> {
    const holder = await this.#options.leases.acquire(conversation)
    if (holder.isOwn) {
      await this.#options.continueRun(conversation)
      return undefined
    }
    if (holder.url === undefined) throw new HeldElsewhereError()
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
      readonly body?: BodyInit
      readonly token?: string | undefined
      readonly signal?: AbortSignal
    },
  ): Promise<Response> {
    const { leases, key, fetch, log, exists, clock } = this.#options
    const { path, method, headers, body, signal, token } = request
    const lost = new AbortController()
    const watch = repeat(clock, watchMs, async () => {
      const holder = await leases.acquire(conversation).catch(() => undefined)
      if (holder === undefined || (!holder.isOwn && holder.url === url)) return
      // A conversation that the other server is just deleting counts as own.
      if (await exists(conversation).catch(() => false)) lost.abort()
    })
    try {
      const response = await fetch(url.replace(/\/+$/, '') + path, {
        method,
        headers: {
          ...headers,
          // The length of an answer is that of its bytes.
          'accept-encoding': 'identity',
          [peerHeader]: '1',
          ...(token === undefined ? { 'x-session-api-key': key.reveal() } : { [peerTokenHeader]: token }),
        },
        signal: signal === undefined ? lost.signal : AbortSignal.any([signal, lost.signal]),
        redirect: 'manual',
        ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
        ...(body === undefined ? {} : { body }),
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
      throw new HeldElsewhereError()
    } finally {
      watch.cancel()
    }
  }
}

/** The address of a request, from what its route has read in it. */
function buildAddress(name: string, { url, params }: Request<Route>): string {
  const path = buildRoutePath(must(routes[name], 'the route'), isRecord(params) ? params : {})
  const at = url.indexOf('?')
  const query = new URLSearchParams(at < 0 ? '' : url.slice(at))
  return query.size === 0 ? path : `${path}?${query}`
}

/** A form with the file, as it arrives. `failure`: why the file could not be read to its end. */
function encodeUpload({ bytes }: Upload): {
  readonly body: ReadableStream
  readonly contentType: string
  readonly failure: () => unknown
} {
  const boundary = `slipway-${randomUUID()}`
  let failure: unknown
  const form = async function* () {
    yield Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\nContent-Type: application/octet-stream\r\n\r\n`,
    )
    try {
      yield* bytes
    } catch (error) {
      failure = error
      throw error
    }
    yield Buffer.from(`\r\n--${boundary}--\r\n`)
  }
  const contentType = `multipart/form-data; boundary=${boundary}`
  return {
    body: Readable.toWeb(Readable.from(form())) as ReadableStream,
    contentType,
    failure: () => failure,
  }
}

async function toReply(response: Response): Promise<Reply> {
  const { status, body } = response
  const contentType = response.headers.get('content-type') ?? 'application/json'
  const headers = Object.fromEntries([...response.headers].filter(([name]) => !ownHeaders.test(name)))
  const sizeBytes = Number(headers['content-length'] ?? Number.POSITIVE_INFINITY)
  if (body !== null && sizeBytes > maxBufferedBytes)
    return { status, headers, contentType, chunks: chunksOf(body) }
  const bytes = await readLimited(response, maxBufferedBytes)
  return { status, headers, contentType, bytes: must(bytes, 'a body of its declared length') }
}

async function* chunksOf(body: ReadableStream<Uint8Array>): AsyncGenerator<Buffer> {
  for await (const chunk of body) yield Buffer.from(chunk)
}
