import type { LogFunction, Telemetry } from '@slipway/protocol'
import { type AuditEntry, AuditFile } from './audit.ts'
import { MetricsRegistry } from './metrics-registry.ts'
import type { MetricsExport, MetricsExportOptions } from './otlp-metrics.ts'
import type { Traces, TracesOptions } from './traces.ts'

/** Undefined without options; then the libraries are not loaded. */
export async function openTraces(options: TracesOptions | undefined): Promise<Traces | undefined> {
  return options === undefined ? undefined : new (await import('./traces-otlp.ts')).OtlpTraces(options)
}

/** Likewise. */
async function openMetricsExport(
  options: MetricsExportOptions | undefined,
): Promise<MetricsExport | undefined> {
  if (options === undefined) return undefined
  return new (await import('./otlp-metrics-export.ts')).OtlpMetricsExport(options)
}

interface AboutServer {
  readonly service: string
  readonly version: string
  readonly log: LogFunction
}

/**
 * Opens the configured telemetry, the options of `createApp`. Rejects with a readable Error when the audit
 * log cannot be opened.
 */
export async function openTelemetry(
  { isOpen, auditLog, traces, metricsExport, receiver }: Telemetry,
  about: AboutServer,
) {
  const file = auditLog === undefined ? undefined : new AuditFile(auditLog, about.log)
  const common = receiverOptions(receiver, about)
  const tracesExporter = await openTraces(traces && { url: traces.url, ratio: traces.ratio, ...common })
  const metricsExporter = await openMetricsExport(metricsExport && { ...metricsExport, ...common })
  return {
    metrics: { registry: new MetricsRegistry(), isOpen },
    metricsExport: metricsExporter,
    traces: tracesExporter,
    audit: file && ((entry: AuditEntry) => file.write(entry)),
    async [Symbol.asyncDispose]() {
      await Promise.all([tracesExporter?.[Symbol.asyncDispose](), metricsExporter?.[Symbol.asyncDispose]()])
      file?.[Symbol.dispose]()
    },
  }
}

function receiverOptions({ headers, attributes, service }: Telemetry['receiver'], about: AboutServer) {
  const revealed = Object.entries(headers).map(([name, value]) => [name, value.reveal()] as const)
  return {
    headers: Object.fromEntries(revealed),
    service: service ?? about.service,
    attributes,
    version: about.version,
  }
}
