import type { Attributes } from './traces.ts'

export interface MetricsExportOptions {
  /** Where metrics are sent by OTLP over HTTP as JSON: `http://127.0.0.1:4318/v1/metrics`. */
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  /** `service.name`. */
  readonly service: string
  /** More attributes of the resource. */
  readonly attributes?: Readonly<Record<string, string>>
  readonly version: string
  /** Milliseconds between exports. */
  readonly intervalMs: number
}

export interface HistogramOptions {
  readonly description: string
  /** In the notation of UCUM: `s`, `{token}`. */
  readonly unit: string
  readonly buckets: readonly number[]
}

export interface ExportedHistogram {
  record(value: number, attributes: Attributes): void
}

/** Metrics that are sent to a receiver; those of `/metrics` are in `MetricsRegistry`. */
export interface MetricsExport extends AsyncDisposable {
  createHistogram(name: string, options: HistogramOptions): ExportedHistogram
}
