import type { IncomingHttpHeaders } from 'node:http'

/** Values of closed sets, or numbers: never an id, a user's text or a secret. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

export interface SpanOptions {
  readonly attributes?: Attributes
  /** Headers of the request that the span answers; it continues their `traceparent` (W3C). */
  readonly incomingHeaders?: IncomingHttpHeaders
  /** The span is a request to another program. */
  readonly isOutgoing?: boolean
}

/** A span that has not ended. */
export interface ActiveSpan {
  /** Runs work within the span: spans that start there, also later, are its children. */
  run<T>(work: () => T): T
  setAttributes(attributes: Attributes): void
  /** With `failure`, a word of a closed set, the span has failed. */
  end(failure?: string): void
  /** `traceparent` and `tracestate` for a program that continues the trace. */
  readonly headers: Readonly<Record<string, string>>
}

/** Starts spans. Undefined everywhere unless traces are configured. */
export interface Traces extends AsyncDisposable {
  startSpan(name: string, options?: SpanOptions): ActiveSpan
  /** The headers of the current span; none outside a span. */
  readonly headers: Readonly<Record<string, string>>
}

export interface TracesOptions {
  /** Where spans are sent by OTLP over HTTP as JSON: `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** `service.name`. */
  readonly service: string
  /** More attributes of the resource. */
  readonly attributes?: Readonly<Record<string, string>>
  readonly version: string
  /** Sampling ratio of traces that start here, 0 to 1; other traces follow the decision of their root. */
  readonly ratio?: number
  /** Milliseconds between exports; 5,000 unless given. */
  readonly delayMs?: number
}

/** A `fetch` whose requests continue the current span. */
export function tracedFetch(fetch: typeof globalThis.fetch, traces: Traces | undefined): typeof fetch {
  if (traces === undefined) return fetch
  return async (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined))
    for (const [name, value] of Object.entries(traces.headers)) headers.set(name, value)
    return await fetch(input, { ...init, headers })
  }
}
