import { decodePercent } from '@slipway/shared/url'
import * as z from 'zod'
import {
  flagSetting,
  listSetting,
  type SettingValues,
  setting,
  toSecret,
  urlSetting,
  withoutSlash,
} from './environment.ts'

// biome-ignore format: one line a setting
/** Settings of both servers that say who may see what they do. */
export const telemetrySettings = {
  isOpen: setting('SLIPWAY_METRICS_OPEN', '0.1.0', flagSetting(false), 'Answer GET /metrics without a key.'),
  auditLog: setting('SLIPWAY_AUDIT_LOG', '0.1.0', z.string().min(1).optional(), 'File to which a line of JSON is added for each request that changes something; without it they are lines of the log. SIGHUP reopens it.'),
  url: setting('OTEL_EXPORTER_OTLP_ENDPOINT', '0.1.0', urlSetting.optional(), 'Receiver of OTLP over HTTP; /v1/traces is added, and /v1/metrics by agent servers.'),
  tracesUrl: setting('OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', '0.1.0', urlSetting.optional(), 'Receiver of traces as a whole address, to which nothing is added.'),
  headers: setting('OTEL_EXPORTER_OTLP_HEADERS', '0.1.0', pairs(toSecret), 'Headers that are sent to it: name=value, separated by commas, values percent-encoded.', { isSecret: true }),
  service: setting('OTEL_SERVICE_NAME', '0.1.0', z.string().min(1).optional(), 'Name of this server in what it sends; slipway-agent-server or slipway-sandbox-server unless given.'),
  attributes: setting('OTEL_RESOURCE_ATTRIBUTES', '0.2.0', pairs((value) => value), 'More attributes of this server in what it sends: name=value, separated by commas, values percent-encoded. service.name counts where OTEL_SERVICE_NAME is not set.'),
  sampledRatio: setting('OTEL_TRACES_SAMPLER_ARG', '0.1.0', z.coerce.number().min(0).max(1).default(1), 'Part of the traces that begin here and are kept, from 0 to 1. Others are kept as their callers say.'),
  conventions: setting('OTEL_SEMCONV_STABILITY_OPT_IN', '0.2.0', listSetting, 'With gen_ai_latest_experimental in its list, separated by commas, spans follow the current GenAI conventions of OpenTelemetry.'),
}

// biome-ignore format: one line a setting
/** Settings of the agent server alone: it sends metrics of its questions to models. */
export const metricsExportSettings = {
  metricsUrl: setting('OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', '0.2.0', urlSetting.optional(), 'Receiver of the [GenAI metrics](operations.md#genai-metrics) as a whole address; /v1/metrics of OTEL_EXPORTER_OTLP_ENDPOINT unless given.'),
  exporter: setting('OTEL_METRICS_EXPORTER', '0.2.0', z.enum(['otlp', 'none']).default('otlp'), 'With none no metrics are sent, whatever the addresses.'),
  intervalMs: setting('OTEL_METRIC_EXPORT_INTERVAL', '0.2.0', z.coerce.number().int().min(100).max(3_600_000).default(60_000), 'Milliseconds between two exports of metrics.'),
}

type TelemetryValues = SettingValues<typeof telemetrySettings> &
  Partial<SettingValues<typeof metricsExportSettings>>

/**
 * Access to telemetry. Without `auditLog` the audit goes to the log; `traces` and `metricsExport` may be
 * absent. Both are sent with what `receiver` says.
 */
export type Telemetry = ReturnType<typeof createTelemetry>

/** What these settings ask for. */
export function createTelemetry({ isOpen, auditLog, headers, attributes, ...values }: TelemetryValues) {
  const { tracesUrl: url = signalUrl(values.url, 'traces'), intervalMs } = values
  const { metricsUrl = signalUrl(values.url, 'metrics') } = values
  const hasLatestGenAi = values.conventions.includes('gen_ai_latest_experimental')
  return {
    ...{ isOpen, auditLog },
    receiver: { headers, attributes, service: values.service ?? attributes['service.name'] },
    traces: url === undefined ? undefined : { url, ratio: values.sampledRatio, hasLatestGenAi },
    metricsExport:
      metricsUrl === undefined || intervalMs === undefined || values.exporter !== 'otlp'
        ? undefined
        : { url: metricsUrl, intervalMs },
  }
}

function signalUrl(baseUrl: string | undefined, signal: string): string | undefined {
  return baseUrl === undefined ? undefined : `${withoutSlash(baseUrl)}/v1/${signal}`
}

/** `name=value` pairs, separated by commas; values are percent-encoded. */
function pairs<T>(convert: (value: string) => T) {
  return z
    .string()
    .default('')
    .transform((text, context) =>
      Object.fromEntries(
        text
          .split(',')
          .filter((part) => part.trim() !== '')
          .map((part) => {
            const at = part.indexOf('=')
            const name = part.slice(0, Math.max(at, 0)).trim()
            if (!/^[\w!#$%&'*+.^`|~-]+$/.test(name))
              context.addIssue('it is not name=value, separated by commas')
            const value = part.slice(at + 1).trim()
            return [name, convert(decodePercent(value) ?? value)]
          }),
      ),
    )
}
