import type { IncomingMessage, ServerResponse } from 'node:http'
import { type LogFunction, Problem, type Route } from '@slipway/protocol'
import type { Guard } from '../auth/guard.ts'
import { type ErrorReply, toErrorReply, toOpenaiError } from '../core/reply.ts'
import {
  type Audit,
  type AuditCaller,
  auditIds,
  getRequestId,
  isAudited,
  keyFingerprint,
  type RequestTrail,
} from './audit.ts'
import type { MetricsRegistry } from './metrics-registry.ts'
import { reportError } from './report-error.ts'
import type { ActiveSpan, Traces } from './traces.ts'
import { knownMethods, TrafficMetrics } from './traffic-metrics.ts'

export interface ObserverOptions {
  readonly log: LogFunction
  /** Served at `/metrics`, with `isOpen` without a key; the key may come as `Authorization: Bearer`. */
  readonly metrics?: { readonly registry: MetricsRegistry; readonly isOpen: boolean }
  /** Starts a span for each request. */
  readonly traces?: Traces | undefined
  /** Records each request that changes something or exposes secrets. Default: lines of the log. */
  readonly audit?: Audit | undefined
  /** Begins the trail of an audited request to a route of the table. */
  openTrail?(operation: string, route: Route, requestId: string): RequestTrail
  /** The audit form of the result of `identify`. */
  auditCaller?(caller: unknown): AuditCaller
}

/** The properties of a route that apply to all of its replies. */
export type RouteTraits = Pick<Route, 'audit' | 'errors' | 'bearer'> & {
  /** The route of the table, with its name. */
  readonly operation?: { readonly name: string; readonly route: Route }
}

interface ObservedRoute {
  /** With braces; empty for an unknown route. */
  readonly route: string
  /** The route in the metrics; empty for `other`. */
  readonly metricsRoute: string
  /** With traits, requests may be audited. */
  readonly traits?: RouteTraits | undefined
}

/** A request that is being answered. */
export interface ObservedRequest {
  readonly observedRoute: ObservedRoute
  readonly raw: IncomingMessage
  readonly res: ServerResponse
  readonly params: unknown
  readonly startedAt: number
  readonly span: ActiveSpan | undefined
  /** Set when the request is audited. */
  readonly requestId: string | undefined
  /** Of an audited one, where the server keeps trails. */
  readonly trail: RequestTrail | undefined
  /** See `Request.caller`; set when it is known. */
  caller: unknown
  /** A stream lasts as long as its reader. */
  isStream: boolean
  /** Its reader was cut off, because it read nothing. */
  isStalled: boolean
}

/** Metrics, spans, audit and error replies of requests. */
export class RequestObserver {
  readonly traffic = new TrafficMetrics()
  readonly #options: ObserverOptions
  readonly #guard: Guard
  readonly #audit: Audit

  constructor(options: ObserverOptions, guard: Guard) {
    this.#options = options
    this.#guard = guard
    this.#audit = options.audit ?? ((entry) => options.log('info', 'audit', { ...entry }))
    options.metrics?.registry.add(() => this.traffic.all)
  }

  begin(
    observedRoute: ObservedRoute,
    raw: IncomingMessage,
    res: ServerResponse,
    params: unknown,
  ): ObservedRequest {
    this.traffic.inFlight++
    const { traces } = this.#options
    const span = traces?.startSpan(spanName(raw, observedRoute.route), { incomingHeaders: raw.headers })
    const requestId = isAudited(observedRoute.traits, raw) ? getRequestId(raw) : undefined
    const { operation } = observedRoute.traits ?? {}
    const trail =
      requestId === undefined || operation === undefined
        ? undefined
        : this.#options.openTrail?.(operation.name, operation.route, requestId)
    const startedAt = performance.now()
    const initial = { caller: undefined, isStream: false, isStalled: false }
    return { observedRoute, raw, res, params, span, requestId, trail, startedAt, ...initial }
  }

  end(request: ObservedRequest): void {
    const { observedRoute, raw, res, span, requestId } = request
    const { method = '' } = raw
    const { statusCode: status } = res
    const duration_ms = performance.now() - request.startedAt
    this.traffic.inFlight--
    const { metricsRoute } = observedRoute
    this.traffic.recordResponse(metricsRoute, method, status, request.isStream ? undefined : duration_ms)
    if (span !== undefined) {
      span.setAttributes({ 'http.response.status_code': status })
      span.end(status < 500 ? undefined : String(status))
    }
    if (requestId !== undefined) {
      const auditCaller = this.#auditCaller(raw, request.caller, observedRoute.traits?.bearer === true)
      const what = { method, route: observedRoute.route, status, ...auditIds(request.params) }
      const entry = { audit: true, ...what, ...auditCaller, request_id: requestId } as const
      request.trail?.end(entry)
      this.#audit(entry)
    }
    this.#options.log('debug', 'request', { method, route: observedRoute.route, status, duration_ms })
  }

  /** A reader is cut off. Streams of events are counted by this outcome when they end. */
  stalled(request: ObservedRequest, stallMs: number): void {
    request.isStalled = true
    const about = { method: request.raw.method, route: request.observedRoute.route }
    this.#options.log('warn', 'a reader was cut off: it read nothing', { ...about, stalled_ms: stallMs })
  }

  /** Audits a message on a WebSocket, which may change something. */
  socketMessage(
    route: string,
    message: { readonly params: unknown; readonly key: string | undefined; readonly id: string },
  ): void {
    const what = { method: 'WEBSOCKET', route, status: 101, ...auditIds(message.params) }
    const auditCaller = message.key === undefined ? {} : { caller: keyFingerprint(message.key) }
    this.#audit({ audit: true, ...what, ...auditCaller, request_id: message.id })
  }

  /**
   * The one place that turns an error into a reply. An error that is not the caller's fault is logged with an
   * id, and the reply has that id instead of details.
   */
  errorReply({ observedRoute, raw }: ObservedRequest, error: unknown): ErrorReply {
    const known = toErrorReply(error) ?? { status: 500, json: { detail: 'Internal Server Error' } }
    const problem = error instanceof Problem ? error : undefined
    const reply = observedRoute.traits?.errors === 'openai' ? toOpenaiError(known, problem) : known
    if (reply.status < 500) return reply
    const about = { method: raw.method, route: observedRoute.route }
    const error_id = reportError(this.#options.log, 'request failed', error, about)
    return { ...reply, json: { ...reply.json, error_id } }
  }

  #auditCaller(raw: IncomingMessage, caller: unknown, allowBearer: boolean): AuditCaller {
    const { auditCaller } = this.#options
    if (auditCaller !== undefined && caller !== undefined) return auditCaller(caller)
    const key = this.#guard.sessionKey(raw, allowBearer)
    return key === undefined ? {} : { caller: keyFingerprint(key) }
  }
}

/** Span names are a closed set. */
function spanName({ method = '' }: IncomingMessage, route: string): string {
  const known = knownMethods.includes(method) ? method : 'HTTP'
  return route === '' ? known : `${known} ${route}`
}
