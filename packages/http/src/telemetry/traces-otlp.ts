import { AsyncLocalStorage } from 'node:async_hooks'
import type { IncomingHttpHeaders } from 'node:http'
import {
  type Context,
  createTraceState,
  ROOT_CONTEXT,
  type Span,
  SpanKind,
  SpanStatusCode,
  type Tracer,
  trace,
} from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { ActiveSpan, Attributes, SpanOptions, Traces, TracesOptions } from './traces.ts'

/** The longest that one export takes, retries included: the process ends no earlier. */
const exportMs = 4_000
const currentSpan = new AsyncLocalStorage<OtlpSpan>()

/** Exports spans by OTLP. Spans that the receiver refuses are lost. */
export class OtlpTraces implements Traces {
  readonly #provider: TracerProvider
  readonly #tracer: Tracer

  constructor(options: TracesOptions) {
    const { url, headers, service, version, attributes, ratio = 1, delayMs = 5_000 } = options
    const exporter = new OTLPTraceExporter({ url, headers: { ...headers }, timeoutMillis: exportMs })
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({
        ...attributes,
        'service.name': service,
        'service.version': version,
      }),
      sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(ratio) }),
      spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: delayMs })],
    })
    this.#tracer = this.#provider.getTracer('slipway', version)
  }

  startSpan(
    name: string,
    { attributes = {}, incomingHeaders, isOutgoing = false }: SpanOptions = {},
  ): ActiveSpan {
    const kind =
      incomingHeaders !== undefined ? SpanKind.SERVER : isOutgoing ? SpanKind.CLIENT : SpanKind.INTERNAL
    const parent =
      incomingHeaders === undefined ? currentSpan.getStore()?.context : remoteContext(incomingHeaders)
    return new OtlpSpan(this.#tracer.startSpan(name, { kind, attributes }, parent ?? ROOT_CONTEXT))
  }

  get headers(): Readonly<Record<string, string>> {
    return currentSpan.getStore()?.headers ?? {}
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const limit = new Promise((resolve) => setTimeout(resolve, exportMs).unref())
    await Promise.race([limit, this.#provider.shutdown().catch(() => undefined)])
  }
}

class OtlpSpan implements ActiveSpan {
  readonly context: Context
  readonly #span: Span

  constructor(span: Span) {
    this.#span = span
    this.context = trace.setSpan(ROOT_CONTEXT, span)
  }

  run<T>(work: () => T): T {
    return currentSpan.run(this, work)
  }

  setAttributes(attributes: Attributes): void {
    this.#span.setAttributes(attributes)
  }

  end(failure?: string): void {
    if (failure !== undefined) {
      this.#span.setStatus({ code: SpanStatusCode.ERROR })
      this.#span.setAttribute('error.type', failure)
    }
    this.#span.end()
  }

  get headers(): Readonly<Record<string, string>> {
    const { traceId, spanId, traceFlags, traceState } = this.#span.spanContext()
    const flags = (traceFlags & 0xff).toString(16).padStart(2, '0')
    const tracestate = traceState?.serialize() ?? ''
    return { traceparent: `00-${traceId}-${spanId}-${flags}`, ...(tracestate === '' ? {} : { tracestate }) }
  }
}

/** The span of the caller (W3C Trace Context), if the headers have one. */
function remoteContext({ traceparent, tracestate }: IncomingHttpHeaders): Context | undefined {
  const match = /^(?!ff)[0-9a-f]{2}-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(?:-|$)/.exec(
    typeof traceparent === 'string' ? traceparent : '',
  )
  const [, traceId = '', spanId = '', flags = ''] = match ?? []
  if (/^0*$/.test(traceId) || /^0*$/.test(spanId)) return undefined
  const state = [tracestate ?? []].flat().join(',')
  return trace.setSpanContext(ROOT_CONTEXT, {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16) & 1,
    isRemote: true,
    ...(state === '' ? {} : { traceState: createTraceState(state) }),
  })
}
