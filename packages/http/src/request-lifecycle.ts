import type { IncomingMessage, ServerResponse } from 'node:http'
import { Problem, type Route } from '@slipway/protocol'
import { type Clock, repeat, systemClock, type Timer } from '@slipway/shared/time'
import { type Guard, keyCheckMs, type PageCredential, type PageRequest } from './auth/guard.ts'
import { ClientDisconnectedError } from './core/body.ts'
import { type Compression, ReplyEncoding } from './core/compress.ts'
import type { Reply } from './core/handler.ts'
import { getHeader } from './core/incoming-request.ts'
import type { RequestAddress } from './core/parse-input.ts'
import { peerOf } from './core/peer.ts'
import {
  type Exchange,
  retryAfterHeader,
  toErrorReply,
  type WritableReply,
  writeReply,
} from './core/reply.ts'
import type { ObservedRequest, RequestObserver, RouteTraits } from './telemetry/request-observer.ts'

export interface LifecycleOptions {
  /**
   * What a request to a route with `pages: 'pass'` presents instead of a key, in its address and headers;
   * undefined when it presents nothing, a Problem when that is invalid. Never throws.
   */
  pageCredential?(
    url: string,
    header: (name: string) => string | undefined,
    peer: () => string,
  ): PageCredential | Problem | undefined
  /** How long a client that is answered early is still read before it is cut off; 5 s unless given. */
  readonly lingerMs?: number
  readonly stallMs?: number
  readonly clock?: Clock | undefined
}

export type RequestListener = (raw: IncomingMessage, res: ServerResponse, address: RequestAddress) => void
/** Undefined: the producer has answered the request itself. */
export type ReplyProducer = (exchange: AppExchange) => Reply | Promise<Reply | undefined>

export interface AppExchange extends Exchange, ObservedRequest {
  readonly page: PageRequest | undefined
  readonly address: RequestAddress
  /** Of a route whose answers may be compressed. */
  readonly encoding: ReplyEncoding | undefined
}

export interface ListenerTraits {
  readonly traits?: RouteTraits | undefined
  readonly pages?: Route['pages']
  /** Requests count for the route `other`. */
  readonly isRefused?: true
  /** Whose answers are compressed. */
  readonly compression?: Compression | undefined
}

const noTraceHeaders: Readonly<Record<string, string>> = {}

/** One request from its head to the end of its answer: observation, common headers, the reply, errors. */
export class RequestLifecycle {
  readonly #options: LifecycleOptions
  readonly #guard: Guard
  readonly #observer: RequestObserver
  /** The signals of the requests in flight. */
  readonly activeControllers = new Map<ServerResponse, AbortController>()
  readonly #endless = new Set<ServerResponse>()
  /** Set when the server stops: requests that are aborted then are answered with 503. */
  isStopping = false

  constructor(options: LifecycleOptions, guard: Guard, observer: RequestObserver) {
    this.#options = options
    this.#guard = guard
    this.#observer = observer
  }

  /** Ends the streams that have no separate end. */
  stop(): void {
    this.isStopping = true
    for (const res of this.#endless) this.activeControllers.get(res)?.abort()
  }

  /** Aborts the requests that have not finished. */
  abortAll(): void {
    for (const controller of this.activeControllers.values()) controller.abort()
  }

  /**
   * Serves a route (empty: none). A request is answered synchronously when the producer returns no promise.
   */
  listener(
    route: string,
    produce: ReplyProducer,
    { traits, pages, isRefused, compression }: ListenerTraits = {},
  ): RequestListener {
    const { lingerMs = 5_000, stallMs = 30_000, clock = systemClock } = this.#options
    const observedRoute = { route, traits, metricsRoute: isRefused ? '' : route }
    return (raw, res, address) => {
      const page = pages === undefined ? undefined : this.#pageRequest(pages, raw)
      const observed = this.#observer.begin(observedRoute, raw, res, address.params)
      const { span, requestId } = observed
      const encoding = compression && new ReplyEncoding(raw, compression)
      const corsHeaders = this.#guard.corsHeaders(raw.headers, page)
      const headers =
        encoding === undefined ? corsHeaders : { ...corsHeaders, vary: 'Origin, Accept-Encoding' }
      const commonHeaders = requestId === undefined ? headers : { ...headers, 'x-request-id': requestId }
      const traceHeaders = span?.headers ?? noTraceHeaders
      const onStall = () => this.#observer.stalled(observed, stallMs)
      const added = {
        page,
        address,
        encoding,
        commonHeaders,
        traceHeaders,
        lingerMs,
        stallMs,
        onStall,
        clock,
      }
      const exchange: AppExchange = Object.assign(observed, added)
      const { trail } = observed
      const answer = () => this.#answer(exchange, produce)
      const answerOnTrail = trail === undefined ? answer : () => trail.run(answer)
      if (span === undefined) answerOnTrail()
      else span.run(answerOnTrail)
    }
  }

  #pageRequest(pages: NonNullable<Route['pages']>, raw: IncomingMessage): PageRequest {
    const header = (name: string) => getHeader(raw, name)
    const credential = this.#options.pageCredential?.(raw.url ?? '', header, () => peerOf(raw.socket))
    return { credential: pages === 'pass' ? credential : undefined }
  }

  #answer(exchange: AppExchange, produce: ReplyProducer): void {
    try {
      this.#guard.checkReady(exchange.raw)
      const produced = produce(exchange)
      const isLater = produced instanceof Promise || exchange.encoding !== undefined
      if (isLater || 'chunks' in produced) void this.#finish(exchange, produced)
      else if ('refusal' in produced) this.#fail(exchange, produced.refusal, produced.headers)
      else {
        void writeReply(exchange, produced)
        this.#observer.end(exchange)
      }
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  async #finish(exchange: AppExchange, produced: Reply | Promise<Reply | undefined>): Promise<void> {
    try {
      const reply = await produced
      if (reply !== undefined && 'refusal' in reply) return this.#fail(exchange, reply.refusal, reply.headers)
      const encoded = reply && exchange.encoding?.apply(reply)
      if (reply !== undefined) await this.#send(exchange, encoded === undefined ? reply : await encoded)
      this.#observer.end(exchange)
    } catch (error) {
      this.#fail(exchange, error)
    }
  }

  async #send(exchange: AppExchange, reply: WritableReply): Promise<void> {
    exchange.isStream = 'chunks' in reply && reply.contentType === 'text/event-stream'
    const isEndless = 'chunks' in reply && reply.isEndless === true
    if (isEndless) this.#endless.add(exchange.res)
    if (isEndless && this.isStopping) this.activeControllers.get(exchange.res)?.abort()
    const keyCheck = isEndless ? this.#endWithKey(exchange) : undefined
    const closed = exchange.isStream ? this.#observer.traffic.openStream() : undefined
    try {
      await writeReply(exchange, reply)
      closed?.(exchange.isStalled ? 'stalled' : exchange.res.destroyed ? 'left' : 'ended')
    } catch (error) {
      closed?.('failed')
      throw error
    } finally {
      keyCheck?.cancel()
      if (isEndless) this.#endless.delete(exchange.res)
    }
  }

  /** Ends a stream when its key is not valid any more: a session that ended, a key that was replaced. */
  #endWithKey({ raw, res, clock }: AppExchange): Timer | undefined {
    const isValid = this.#guard.keyCheck(raw)
    if (isValid === undefined) return undefined
    return repeat(clock, keyCheckMs, async () => {
      // A storage that is away ends no stream.
      if (!(await isValid().catch(() => true))) this.activeControllers.get(res)?.abort()
    })
  }

  #fail(exchange: AppExchange, error: unknown, headers: Readonly<Record<string, string>> = {}): void {
    const { res } = exchange
    const isAborted =
      error instanceof ClientDisconnectedError || (error instanceof Error && error.name === 'AbortError')
    const isStop = isAborted && this.isStopping && toErrorReply(error) === undefined
    const isDisconnected = isAborted && !isStop && res.destroyed
    const cause = isStop ? new Problem('unavailable', 'The server is stopping') : error
    const reply = isDisconnected ? undefined : this.#observer.errorReply(exchange, cause)
    const retryHeader = cause instanceof Problem ? retryAfterHeader(cause) : {}
    if (reply === undefined || res.headersSent) res.destroy()
    else void writeReply(exchange, { ...reply, headers: { ...retryHeader, ...headers } })
    this.#observer.end(exchange)
  }
}
