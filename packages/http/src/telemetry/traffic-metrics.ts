import { Counter, Gauge, Histogram, type Metric } from 'prom-client'

const durationBuckets = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]
const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const closeCodes: readonly number[] = [1000, 1001, 1003, 1005, 1006, 1009, 1011, 1013, 4001]
/** By the first digit of the status. */
const statusClasses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

export type StreamOutcome = 'ended' | 'left' | 'failed'

/** Metrics of the traffic of a server. All labels have closed sets of values: routes of the table, methods, classes of statuses. */
export class TrafficMetrics {
  /** Requests that are being answered. */
  inFlight = 0
  readonly #requests = new Counter({
    name: 'slipway_http_requests_total',
    help: 'Requests by route, method and class of the status.',
    labelNames: ['method', 'route', 'status'],
    registers: [],
  })
  readonly #durations = new Histogram({
    name: 'slipway_http_request_duration_seconds',
    help: 'Time until the answer was given to the connection, streams of events left out.',
    labelNames: ['method', 'route'],
    buckets: durationBuckets,
    registers: [],
  })
  readonly #openStreams = new Gauge({
    name: 'slipway_streams_open',
    help: 'Streams of server-sent events.',
    registers: [],
  })
  readonly #closedStreams = new Counter({
    name: 'slipway_streams_closed_total',
    help: 'Streams by how they ended.',
    labelNames: ['outcome'],
    registers: [],
  })
  readonly #openSockets = new Gauge({ name: 'slipway_sockets_open', help: 'WebSockets.', registers: [] })
  readonly #openedSockets = new Counter({
    name: 'slipway_sockets_opened_total',
    help: 'WebSockets that were opened.',
    registers: [],
  })
  readonly #closedSockets = new Counter({
    name: 'slipway_sockets_closed_total',
    help: 'WebSockets by close code.',
    labelNames: ['code'],
    registers: [],
  })
  readonly #proxied = new Counter({
    name: 'slipway_relayed_total',
    help: 'What was sent on to another server.',
    labelNames: ['kind'],
    registers: [],
  })
  readonly metrics: readonly Metric[]

  constructor() {
    const getInFlight = () => this.inFlight
    const inFlight = new Gauge({
      name: 'slipway_http_requests_in_flight',
      help: 'Requests that are being answered.',
      registers: [],
      collect() {
        this.set(getInFlight())
      },
    })
    this.metrics = [
      this.#requests,
      this.#durations,
      inFlight,
      this.#openStreams,
      this.#closedStreams,
      this.#openSockets,
      this.#openedSockets,
      this.#closedSockets,
      this.#proxied,
    ]
  }

  /** `route` is empty where there is none. `durationMs` is undefined for streams, which last as long as their readers. */
  recordResponse(route: string, method: string, status: number, durationMs: number | undefined): void {
    const labels = { method: methods.includes(method) ? method : 'other', route: route || 'other' }
    const statusClass = statusClasses[Math.min(5, Math.floor(status / 100))] ?? 'none'
    this.#requests.inc({ ...labels, status: statusClass })
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
