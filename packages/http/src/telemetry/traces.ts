import type { IncomingHttpHeaders } from 'node:http'

/** Of a closed set, or numbers: never an id of ours, a text of a user or a secret. */
export type Attributes = Readonly<Record<string, string | number | boolean>>

export interface SpanOptions {
  readonly attributes?: Attributes
  /** It answers a request of another program; `caller` tells whose span it continues (W3C `traceparent`). */
  readonly incomingHeaders?: IncomingHttpHeaders
  /** It asks another program. */
  readonly isOutgoing?: boolean
}

/** A piece of work that is under way. */
export interface ActiveSpan {
  /** Does something as a part of it: spans that begin in there are its children, however long it takes. */
  run<T>(work: () => T): T
  setAttributes(attributes: Attributes): void
  /** With `failure`, a word of a closed set, the work has failed. */
  end(failure?: string): void
  /** `traceparent` and `tracestate` for a program that goes on with it. */
  readonly headers: Readonly<Record<string, string>>
}

/** Where spans are begun. There is one only when somebody wants to have traces; whoever has none does nothing. */
export interface Traces extends AsyncDisposable {
  startSpan(name: string, options?: SpanOptions): ActiveSpan
  /** The headers of the span that this is called within; none outside of all. */
  readonly headers: Readonly<Record<string, string>>
}

export interface TracesOptions {
  /** Where spans are sent by OTLP over HTTP as JSON: `http://127.0.0.1:4318/v1/traces`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** `service.name`. */
  readonly service: string
  readonly version: string
  /** The part of the traces that begin here and are kept, from 0 to 1; of others whoever began them has decided. */
  readonly ratio?: number
  /** Milliseconds between two sendings; 5,000 unless given. */
  readonly delayMs?: number
}

/** A `fetch` whose requests continue the span that it is called within. */
export function tracedFetch(fetch: typeof globalThis.fetch, traces: Traces | undefined): typeof fetch {
  if (traces === undefined) return fetch
  return async (input, init) => {
    const headers = new Headers(init?.headers ?? (input instanceof Request ? input.headers : undefined))
    for (const [name, value] of Object.entries(traces.headers)) headers.set(name, value)
    return await fetch(input, { ...init, headers })
  }
}
