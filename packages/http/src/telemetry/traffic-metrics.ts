import { Counts, type Family, family, Tally } from '@slipway/protocol'

const durationBounds = [0.001, 0.005, 0.025, 0.1, 0.5, 2.5, 10]
const methods: readonly string[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
const closeCodes: readonly number[] = [1000, 1001, 1003, 1005, 1006, 1009, 1011, 1013, 4001]
/** Stands for every address that is no route, and for methods that a route has not. */
const otherRoute = 'other'

interface Answers {
  /** By the first digit of the status. */
  readonly classes: number[]
  readonly duration: Tally
}

/** The requests of one route. */
export class RouteTraffic {
  readonly route: string
  readonly byMethod = new Map<string, Answers>()

  constructor(route: string) {
    this.route = route === '' ? otherRoute : route
  }

  /** `durationMs` is undefined for what takes as long as somebody listens. */
  done(method: string | undefined, status: number, durationMs: number | undefined): void {
    const name = method !== undefined && methods.includes(method) ? method : 'other'
    let answers = this.byMethod.get(name)
    if (answers === undefined) {
      answers = { classes: [0, 0, 0, 0, 0, 0], duration: new Tally(durationBounds) }
      this.byMethod.set(name, answers)
    }
    const kind = Math.min(5, Math.floor(status / 100))
    answers.classes[kind] = (answers.classes[kind] ?? 0) + 1
    if (durationMs !== undefined) answers.duration.add(durationMs / 1000)
  }
}

export type StreamEnd = 'ended' | 'left' | 'failed'

/** What goes through a server, in numbers. The labels are routes as the table has them, methods, classes of statuses. */
export class Traffic {
  readonly #routes = new Map<string, RouteTraffic>()
  readonly #streams = new Counts('outcome')
  readonly #sockets = new Counts('code')
  readonly #relays = new Counts('kind')
  inFlight = 0
  openStreams = 0
  openSockets = 0
  #openedSockets = 0

  route(template: string): RouteTraffic {
    const known = this.#routes.get(template) ?? new RouteTraffic(template)
    this.#routes.set(template, known)
    return known
  }

  /** A stream of server-sent events has begun; the answer is called when it is over. */
  stream(): (outcome: StreamEnd) => void {
    this.openStreams++
    return (outcome) => {
      this.openStreams--
      this.#streams.add({ outcome })
    }
  }

  /** A WebSocket is open; the answer is called with its close code. */
  socket(): (code: number) => void {
    this.openSockets++
    this.#openedSockets++
    return (code) => {
      this.openSockets--
      this.#sockets.add({ code: closeCodes.includes(code) ? String(code) : 'other' })
    }
  }

  relay(kind: 'request' | 'socket'): void {
    this.#relays.add({ kind })
  }

  families(): readonly Family[] {
    const answered = [...this.#routes.values()].flatMap(({ route, byMethod }) =>
      [...byMethod].map(([method, answers]) => ({ labels: { method, route }, answers })),
    )
    return [
      family('http_requests_total', 'counter', 'Requests by route, method and class of the status.', [
        ...answered.flatMap(({ labels, answers }) =>
          answers.classes.flatMap((value, kind) =>
            value === 0 ? [] : [{ labels: { ...labels, status: kind === 0 ? 'none' : `${kind}xx` }, value }],
          ),
        ),
      ]),
      family(
        'http_request_duration_seconds',
        'histogram',
        'Time until the answer was given to the connection, streams of events left out.',
        answered.map(({ labels, answers }) => ({ labels, value: answers.duration })),
      ),
      family('http_requests_in_flight', 'gauge', 'Requests that are being answered.', [
        { value: this.inFlight },
      ]),
      family('streams_open', 'gauge', 'Streams of server-sent events.', [{ value: this.openStreams }]),
      family('streams_closed_total', 'counter', 'Streams by how they ended.', this.#streams.samples),
      family('sockets_open', 'gauge', 'WebSockets.', [{ value: this.openSockets }]),
      family('sockets_opened_total', 'counter', 'WebSockets that were opened.', [
        { value: this.#openedSockets },
      ]),
      family('sockets_closed_total', 'counter', 'WebSockets by close code.', this.#sockets.samples),
      family('relayed_total', 'counter', 'What was sent on to another server.', this.#relays.samples),
    ]
  }
}
