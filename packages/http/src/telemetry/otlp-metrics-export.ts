import type { Meter } from '@opentelemetry/api'
import { OTLPMetricExporter } from '@opentelemetry/exporter-metrics-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import { MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import type {
  ExportedHistogram,
  HistogramOptions,
  MetricsExport,
  MetricsExportOptions,
} from './otlp-metrics.ts'

/** The longest that one export takes, retries included: the process ends no earlier. */
const exportMs = 4_000

/** Exports cumulative metrics by OTLP. An export that the receiver refuses is made up for by the next one. */
export class OtlpMetricsExport implements MetricsExport {
  readonly #provider: MeterProvider
  readonly #meter: Meter

  constructor({ url, headers, service, version, attributes, intervalMs }: MetricsExportOptions) {
    const reader = new PeriodicExportingMetricReader({
      exporter: new OTLPMetricExporter({ url, headers: { ...headers }, timeoutMillis: exportMs }),
      exportIntervalMillis: intervalMs,
      exportTimeoutMillis: Math.min(intervalMs, exportMs),
    })
    this.#provider = new MeterProvider({
      resource: resourceFromAttributes({
        ...attributes,
        'service.name': service,
        'service.version': version,
      }),
      readers: [reader],
    })
    this.#meter = this.#provider.getMeter('slipway', version)
  }

  createHistogram(name: string, { description, unit, buckets }: HistogramOptions): ExportedHistogram {
    const advice = { explicitBucketBoundaries: [...buckets] }
    return this.#meter.createHistogram(name, { description, unit, advice })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const limit = new Promise((resolve) => setTimeout(resolve, exportMs).unref())
    await Promise.race([limit, this.#provider.shutdown().catch(() => undefined)])
  }
}
