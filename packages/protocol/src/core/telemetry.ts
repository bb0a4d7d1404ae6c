import { Secret } from '@slipway/shared/redaction'
import { decodePercent } from '@slipway/shared/url'
import * as z from 'zod'

const httpUrl = z.url({ protocol: /^https?$/ }).optional()

/** Settings of both servers that say who may see what they do. */
export const telemetrySettings = {
  SLIPWAY_METRICS_OPEN: z.stringbool().default(false).meta({
    description: 'Answer GET /metrics without a key.',
  }),
  SLIPWAY_AUDIT_LOG: z.string().min(1).optional().meta({
    description:
      'File to which a line of JSON is added for each request that changes something; without it they are lines of the log. SIGHUP reopens it.',
  }),
  OTEL_EXPORTER_OTLP_ENDPOINT: httpUrl.meta({
    description: 'Receiver of OTLP over HTTP; /v1/traces is added, and /v1/metrics by agent servers.',
  }),
  OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: httpUrl.meta({
    description: 'Receiver of traces as a whole address, to which nothing is added.',
  }),
  OTEL_EXPORTER_OTLP_HEADERS: z.string().optional().meta({
    description: 'Headers that are sent to it: name=value, separated by commas, values percent-encoded.',
  }),
  OTEL_SERVICE_NAME: z.string().min(1).optional().meta({
    description:
      'Name of this server in what it sends; slipway-agent-server or slipway-sandbox-server unless given.',
  }),
  OTEL_RESOURCE_ATTRIBUTES: z.string().optional().meta({
    description:
      'More attributes of this server in what it sends: name=value, separated by commas, values percent-encoded. service.name counts where OTEL_SERVICE_NAME is not set.',
  }),
  OTEL_TRACES_SAMPLER_ARG: z.coerce.number().min(0).max(1).default(1).meta({
    description:
      'Part of the traces that begin here and are kept, from 0 to 1. Others are kept as their callers say.',
  }),
  OTEL_SEMCONV_STABILITY_OPT_IN: z.string().optional().meta({
    description:
      'With gen_ai_latest_experimental in its list, separated by commas, spans follow the current GenAI conventions of OpenTelemetry.',
  }),
}

/** Settings of the agent server alone: it sends metrics of its questions to models. */
export const metricsExportSettings = {
  OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: httpUrl.meta({
    description:
      'Receiver of the GenAI metrics as a whole address; /v1/metrics of OTEL_EXPORTER_OTLP_ENDPOINT unless given.',
  }),
  OTEL_METRICS_EXPORTER: z.enum(['otlp', 'none']).default('otlp').meta({
    description: 'With none no metrics are sent, whatever the addresses.',
  }),
  OTEL_METRIC_EXPORT_INTERVAL: z.coerce.number().int().min(100).max(3_600_000).default(60_000).meta({
    description: 'Milliseconds between two exports of metrics.',
  }),
}

type TelemetryVariables = z.output<z.ZodObject<typeof telemetrySettings>> &
  Partial<z.output<z.ZodObject<typeof metricsExportSettings>>>

/**
 * Access to telemetry. Without `auditLog` the audit goes to the log; `traces` and `metricsExport` may be
 * absent. Both are sent with what `receiver` says.
 */
export type Telemetry = ReturnType<typeof parseTelemetry>

/** Reads these settings; throws an Error that names the variable at fault and never shows its value. */
export function parseTelemetry(values: TelemetryVariables) {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: baseUrl, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: tracesUrl } = values
  const url = tracesUrl ?? signalUrl(baseUrl, 'traces')
  const metricsUrl = values.OTEL_EXPORTER_OTLP_METRICS_ENDPOINT ?? signalUrl(baseUrl, 'metrics')
  const intervalMs = values.OTEL_METRIC_EXPORT_INTERVAL
  const sendsMetrics = values.OTEL_METRICS_EXPORTER === 'otlp'
  const headers = parsePairs(values, 'OTEL_EXPORTER_OTLP_HEADERS', (value) => new Secret(value))
  const attributes = parsePairs(values, 'OTEL_RESOURCE_ATTRIBUTES', (value) => value)
  const { OTEL_SERVICE_NAME: service = attributes['service.name'], OTEL_TRACES_SAMPLER_ARG: ratio } = values
  const optIns = (values.OTEL_SEMCONV_STABILITY_OPT_IN ?? '').split(',').map((name) => name.trim())
  const hasLatestGenAi = optIns.includes('gen_ai_latest_experimental')
  return {
    isOpen: values.SLIPWAY_METRICS_OPEN,
    auditLog: values.SLIPWAY_AUDIT_LOG,
    receiver: { headers, attributes, service },
    traces: url === undefined ? undefined : { url, ratio, hasLatestGenAi },
    metricsExport:
      metricsUrl === undefined || intervalMs === undefined || !sendsMetrics
        ? undefined
        : { url: metricsUrl, intervalMs },
  }
}

function signalUrl(baseUrl: string | undefined, signal: string): string | undefined {
  return baseUrl === undefined ? undefined : `${baseUrl.replace(/\/+$/, '')}/v1/${signal}`
}

/** `name=value` pairs, separated by commas; values are percent-encoded. */
function parsePairs<T>(
  values: TelemetryVariables,
  variable: 'OTEL_EXPORTER_OTLP_HEADERS' | 'OTEL_RESOURCE_ATTRIBUTES',
  convert: (value: string) => T,
): Record<string, T> {
  const parts = (values[variable] ?? '').split(',').filter((part) => part.trim() !== '')
  return Object.fromEntries(
    parts.map((part) => {
      const at = part.indexOf('=')
      const name = part.slice(0, Math.max(at, 0)).trim()
      if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name))
        throw new Error(`${variable}: it is not name=value, separated by commas`)
      const value = part.slice(at + 1).trim()
      return [name, convert(decodePercent(value) ?? value)]
    }),
  )
}
