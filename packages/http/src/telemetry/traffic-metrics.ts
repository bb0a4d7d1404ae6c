import { createCounter, createGauge, createHistogram, type Metric } from '@slipway/shared/metrics'

const durationBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]
export const knownMethods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const closeCodes: readonly number[] = [1000, 1001, 1003, 1005, 1006, 1009, 1011, 1013, 4001]
/** By the first digit of the status. */
const statusClasses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

type StreamOutcome = 'ended' | 'left' | 'stalled' | 'failed'

/**
 * Metrics of the traffic of a server. The labels are routes of the table, methods, and classes of statuses.
 */
export class TrafficMetrics {
  readonly #requests = createCounter(
    'slipway_http_requests_total',
    'Requests by route, method and class of the status.',
    'method',
    'route',
    'status',
  )
  readonly #durations = createHistogram(
    'slipway_http_request_duration_seconds',
    'Time until the answer was given to the connection, streams of events left out.',
    durationBuckets,
    'method',
    'route',
  )
  readonly #openStreams = createGauge('slipway_streams_open', 'Streams of server-sent events.')
  readonly #closedStreams = createCounter(
    'slipway_streams_closed_total',
    'Streams by how they ended.',
    'outcome',
  )
  readonly #openSockets = createGauge('slipway_sockets_open', 'WebSockets.')
  readonly #openedSockets = createCounter('slipway_sockets_opened_total', 'WebSockets that were opened.')
  readonly #closedSockets = createCounter('slipway_sockets_closed_total', 'WebSockets by close code.', 'code')
  readonly #proxied = createCounter('slipway_relayed_total', 'What was sent on to another server.', 'kind')
  /** Requests that are being answered. */
  inFlight = 0
  readonly all: readonly Metric[] = [
    this.#requests,
    this.#durations,
    createGauge('slipway_http_requests_in_flight', 'Requests that are being answered.', () => this.inFlight),
    this.#openStreams,
    this.#closedStreams,
    this.#openSockets,
    this.#openedSockets,
    this.#closedSockets,
    this.#proxied,
  ]

  /**
   * `route` is empty where there is none. `durationMs` is undefined for streams, which last as long as their
   * readers.
   */
  recordResponse(route: string, method: string, status: number, durationMs: number | undefined): void {
    const labels = { method: knownMethods.includes(method) ? method : 'other', route: route || 'other' }
    this.#requests.inc({ ...labels, status: statusClasses[Math.min(5, Math.floor(status / 100))] ?? 'none' })
    if (durationMs !== undefined) this.#durations.observe(labels, durationMs / 1000)
  }

  /** Counts a stream of server-sent events; the returned function is called at its end. */
  openStream(): (outcome: StreamOutcome) => void {
    this.#openStreams.inc()
    return (outcome) => {
      this.#openStreams.dec()
      this.#closedStreams.inc({ outcome })
    }
  }

  /** Counts a WebSocket; the returned function is called with its close code. */
  openSocket(): (code: number) => void {
    this.#openSockets.inc()
    this.#openedSockets.inc()
    return (code) => {
      this.#openSockets.dec()
      this.#closedSockets.inc({ code: closeCodes.includes(code) ? String(code) : 'other' })
    }
  }

  countProxied(kind: 'request' | 'socket'): void {
    this.#proxied.inc({ kind })
  }
}
