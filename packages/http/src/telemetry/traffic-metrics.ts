import { CounterVec, Histogram, type MetricFamily, metricFamily } from '@slipway/protocol'

const durationBounds = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]
const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const closeCodes: readonly number[] = [1000, 1001, 1003, 1005, 1006, 1009, 1011, 1013, 4001]
/** Stands for every address that is no route, and for methods that a route has not. */
const otherRoute = 'other'

interface ResponseCounts {
  /** By the first digit of the status. */
  readonly classes: number[]
  readonly duration: Histogram
}

/** The requests of one route. */
export class RouteMetrics {
  readonly route: string
  readonly byMethod = new Map<string, ResponseCounts>()

  constructor(route: string) {
    this.route = route === '' ? otherRoute : route
  }

  /** `durationMs` is undefined for what takes as long as somebody listens. */
  recordResponse(method: string | undefined, status: number, durationMs: number | undefined): void {
    const name = method !== undefined && methods.includes(method) ? method : 'other'
    let responses = this.byMethod.get(name)
    if (responses === undefined) {
      responses = { classes: [0, 0, 0, 0, 0, 0], duration: new Histogram(durationBounds) }
      this.byMethod.set(name, responses)
    }
    const kind = Math.min(5, Math.floor(status / 100))
    responses.classes[kind] = (responses.classes[kind] ?? 0) + 1
    if (durationMs !== undefined) responses.duration.observe(durationMs / 1000)
  }
}

export type StreamOutcome = 'ended' | 'left' | 'failed'

/** What goes through a server, in numbers. The labels are routes as the table has them, methods, classes of statuses. */
export class TrafficMetrics {
  readonly #routes = new Map<string, RouteMetrics>()
  readonly #streams = new CounterVec('outcome')
  readonly #sockets = new CounterVec('code')
  readonly #proxied = new CounterVec('kind')
  inFlight = 0
  openStreams = 0
  openSockets = 0
  #openedSockets = 0

  route(template: string): RouteMetrics {
    const metrics = this.#routes.get(template) ?? new RouteMetrics(template)
    this.#routes.set(template, metrics)
    return metrics
  }

  /** A stream of server-sent events has begun; the answer is called when it is over. */
  openStream(): (outcome: StreamOutcome) => void {
    this.openStreams++
    return (outcome) => {
      this.openStreams--
      this.#streams.increment({ outcome })
    }
  }

  /** A WebSocket is open; the answer is called with its close code. */
  openSocket(): (code: number) => void {
    this.openSockets++
    this.#openedSockets++
    return (code) => {
      this.openSockets--
      this.#sockets.increment({ code: closeCodes.includes(code) ? String(code) : 'other' })
    }
  }

  countProxied(kind: 'request' | 'socket'): void {
    this.#proxied.increment({ kind })
  }

  metricFamilies(): readonly MetricFamily[] {
    const entries = [...this.#routes.values()].flatMap(({ route, byMethod }) =>
      [...byMethod].map(([method, answers]) => ({ labels: { method, route }, answers })),
    )
    return [
      metricFamily('http_requests_total', 'counter', 'Requests by route, method and class of the status.', [
        ...entries.flatMap(({ labels, answers }) =>
          answers.classes.flatMap((value, kind) =>
            value === 0 ? [] : [{ labels: { ...labels, status: kind === 0 ? 'none' : `${kind}xx` }, value }],
          ),
        ),
      ]),
      metricFamily(
        'http_request_duration_seconds',
        'histogram',
        'Time until the answer was given to the connection, streams of events left out.',
        entries.map(({ labels, answers }) => ({ labels, value: answers.duration })),
      ),
      metricFamily('http_requests_in_flight', 'gauge', 'Requests that are being answered.', [
        { value: this.inFlight },
      ]),
      metricFamily('streams_open', 'gauge', 'Streams of server-sent events.', [{ value: this.openStreams }]),
      metricFamily('streams_closed_total', 'counter', 'Streams by how they ended.', this.#streams.samples),
      metricFamily('sockets_open', 'gauge', 'WebSockets.', [{ value: this.openSockets }]),
      metricFamily('sockets_opened_total', 'counter', 'WebSockets that were opened.', [
        { value: this.#openedSockets },
      ]),
      metricFamily('sockets_closed_total', 'counter', 'WebSockets by close code.', this.#sockets.samples),
      metricFamily('relayed_total', 'counter', 'What was sent on to another server.', this.#proxied.samples),
    ]
  }
}
