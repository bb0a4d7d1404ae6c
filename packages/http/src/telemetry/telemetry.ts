import type { LogFunction, Telemetry } from '@slipway/protocol'
import { type AuditEntry, AuditFile } from './audit.ts'
import { MetricsRegistry } from './metrics-registry.ts'
import type { Traces, TracesOptions } from './traces.ts'

/** Undefined without options; then the libraries are not loaded. */
export async function openTraces(options: TracesOptions | undefined): Promise<Traces | undefined> {
  return options === undefined ? undefined : new (await import('./traces-otlp.ts')).OtlpTraces(options)
}

/**
 * Opens the configured telemetry, the options of `createApp`. Rejects with a readable Error when the audit
 * log cannot be opened.
 */
export async function openTelemetry(
  { isOpen, auditLog, traces }: Telemetry,
  about: { readonly service: string; readonly version: string; readonly log: LogFunction },
) {
  const file = auditLog === undefined ? undefined : new AuditFile(auditLog, about.log)
  const headers = Object.entries(traces?.headers ?? {}).map(
    ([name, value]) => [name, value.reveal()] as const,
  )
  const tracesExporter = await openTraces(
    traces && {
      url: traces.url,
      headers: Object.fromEntries(headers),
      service: traces.service ?? about.service,
      version: about.version,
      ratio: traces.ratio,
    },
  )
  return {
    metrics: { registry: new MetricsRegistry(), isOpen },
    traces: tracesExporter,
    audit: file && ((entry: AuditEntry) => file.write(entry)),
    async [Symbol.asyncDispose]() {
      await tracesExporter?.[Symbol.asyncDispose]()
      file?.[Symbol.dispose]()
    },
  }
}
