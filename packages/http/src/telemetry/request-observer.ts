import type { IncomingMessage, ServerResponse } from 'node:http'
import { type Log, Problem, type Route } from '@slipway/protocol'
import type { Guard } from '../auth/guard.ts'
import { forOpenai, type Refusal, refusal } from '../core/reply.ts'
import { type Audit, type AuditCaller, auditIds, auditTo, isAudited, keyName, requestId } from './audit.ts'
import type { Metrics } from './metrics-registry.ts'
import { reported } from './report-error.ts'
import type { OpenSpan, Traces } from './traces.ts'
import { type RouteTraffic, Traffic } from './traffic-metrics.ts'

export interface ObserverOptions {
  readonly log: Log
  /** Served at `/metrics`; the key may come as `Authorization: Bearer`. Nobody is asked for one when it `isOpen`. */
  readonly metrics?: { readonly from: Metrics; readonly isOpen: boolean }
  /** Where a span is begun for each request. */
  readonly traces?: Traces | undefined
  /** Told of each request that changes something or shows secrets; lines of the log unless given. */
  readonly audit?: Audit | undefined
  /** How what `identify` has answered is written down. */
  auditCaller?(caller: unknown): AuditCaller
}

/** What matters of a route to all that is answered there. */
export type Manner = Pick<Route, 'audit' | 'errors' | 'bearer'>

export interface Place {
  /** With braces; empty when there is no such route. */
  readonly route: string
  readonly traffic: RouteTraffic
  /** What comes here may be written down. */
  readonly manner?: Manner | undefined
}

/** A request that is being answered, seen from outside. */
export interface Observed {
  readonly place: Place
  readonly raw: IncomingMessage
  readonly res: ServerResponse
  readonly params: unknown
  readonly startedAt: number
  readonly span: OpenSpan | undefined
  /** Of a request that is written down. */
  readonly requestId: string | undefined
  /** See `Request.caller`; set when it is known. */
  caller: unknown
  /** It takes as long as somebody listens. */
  isStream: boolean
}

/** Counts what goes through a server, begins and ends its spans, and writes down who changed what. */
export class Observer {
  readonly traffic = new Traffic()
  readonly #options: ObserverOptions
  readonly #guard: Guard
  readonly #audit: Audit

  constructor(options: ObserverOptions, guard: Guard) {
    this.#options = options
    this.#guard = guard
    this.#audit = options.audit ?? auditTo(options.log)
    options.metrics?.from.add(() => this.traffic.families())
  }

  place(
    route: string,
    options: { readonly manner?: Manner | undefined; readonly isRefused?: true } = {},
  ): Place {
    return { route, manner: options.manner, traffic: this.traffic.route(options.isRefused ? '' : route) }
  }

  begin(place: Place, raw: IncomingMessage, res: ServerResponse, params: unknown): Observed {
    this.traffic.inFlight++
    const span = this.#options.traces?.begin(spanName(raw, place.route), { caller: raw.headers })
    const id = isAudited(place.manner, raw) ? requestId(raw) : undefined
    const startedAt = performance.now()
    return { place, raw, res, params, startedAt, span, requestId: id, caller: undefined, isStream: false }
  }

  end({ place, raw, res, params, startedAt, span, requestId, caller, isStream }: Observed): void {
    const { method = '' } = raw
    const { statusCode: status } = res
    const duration_ms = performance.now() - startedAt
    this.traffic.inFlight--
    place.traffic.done(method, status, isStream ? undefined : duration_ms)
    if (span !== undefined) {
      span.set({ 'http.response.status_code': status })
      span.end(status < 500 ? undefined : String(status))
    }
    if (requestId !== undefined) {
      const who = this.#whoIs(raw, caller, place.manner?.bearer === true)
      const what = { method, route: place.route, status, ...auditIds(params) }
      this.#audit({ audit: true, ...what, ...who, request_id: requestId })
    }
    this.#options.log('debug', 'request', { method, route: place.route, status, duration_ms })
  }

  /** A message on a WebSocket, by which things may change. */
  said(
    route: string,
    about: { readonly params: unknown; readonly key: string | undefined; readonly id: string },
  ): void {
    const what = { method: 'WEBSOCKET', route, status: 101, ...auditIds(about.params) }
    const who = about.key === undefined ? {} : { caller: keyName(about.key) }
    this.#audit({ audit: true, ...what, ...who, request_id: about.id })
  }

  /**
   * The one place that turns an error into an answer. What is not the caller's mistake has an id, by which the log tells more than
   * the caller is told.
   */
  refusal({ place, raw }: Observed, error: unknown): Refusal {
    const known = refusal(error) ?? { status: 500, json: { detail: 'Internal Server Error' } }
    const code = error instanceof Problem ? error.code : undefined
    const shown = place.manner?.errors === 'openai' ? forOpenai(known, code) : known
    if (shown.status < 500) return shown
    const about = { method: raw.method, route: place.route }
    const error_id = reported(this.#options.log, 'request failed', error, about)
    return { ...shown, json: { ...shown.json, error_id } }
  }

  #whoIs(raw: IncomingMessage, caller: unknown, takesBearer: boolean): AuditCaller {
    const { auditCaller } = this.#options
    if (auditCaller !== undefined && caller !== undefined) return auditCaller(caller)
    const key = this.#guard.keyOf(raw, takesBearer)
    return key === undefined ? {} : { caller: keyName(key) }
  }
}

const usualMethods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** The names of spans are a closed set. */
function spanName({ method = '' }: IncomingMessage, route: string): string {
  const known = usualMethods.includes(method) ? method : 'HTTP'
  return route === '' ? known : `${known} ${route}`
}
