import { expect, test } from 'vitest'
import { readSettings } from './environment.ts'
import { createTelemetry, metricsExportSettings, telemetrySettings } from './telemetry.ts'

function read(set: Record<string, string>) {
  return createTelemetry(readSettings({ ...telemetrySettings, ...metricsExportSettings }, set))
}

test('without settings there are no traces, the metrics are closed and the audit is in the log', () => {
  expect(read({})).toEqual({ isOpen: false, receiver: { headers: {}, attributes: {} } })
})

test.for([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://collector:4318' }, 'http://collector:4318/v1/traces'],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'https://x.example/base//' }, 'https://x.example/base/v1/traces'],
  [
    { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/own' },
    'http://b/own',
  ],
] as const)('%o leads to %s', ([set, url]) => {
  expect(read(set).traces?.url).toBe(url)
})

test('headers are read as pairs, decoded, and stored as secrets', () => {
  const { traces, receiver } = read({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a',
    OTEL_EXPORTER_OTLP_HEADERS: ' authorization=Bearer%20abc=, x-b = %zz ,',
    OTEL_SERVICE_NAME: 'mine',
    OTEL_TRACES_SAMPLER_ARG: '0.25',
  })
  const headers = Object.entries(receiver.headers).map(([name, value]) => [name, value.reveal()])
  expect(headers).toEqual([
    ['authorization', 'Bearer abc='],
    ['x-b', '%zz'],
  ])
  expect(JSON.stringify(receiver)).not.toContain('abc')
  expect([receiver.service, traces?.ratio]).toEqual(['mine', 0.25])
})

test('attributes of the server are read as pairs, and name it where nothing else does', () => {
  const OTEL_RESOURCE_ATTRIBUTES = 'deployment.environment.name=prod,team=a%2Cb, service.name=agents'
  expect(read({ OTEL_RESOURCE_ATTRIBUTES }).receiver).toEqual({
    headers: {},
    attributes: { 'deployment.environment.name': 'prod', team: 'a,b', 'service.name': 'agents' },
    service: 'agents',
  })
  expect(read({ OTEL_RESOURCE_ATTRIBUTES, OTEL_SERVICE_NAME: 'mine' }).receiver.service).toBe('mine')
})

test.for([
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a/' }, { url: 'http://a/v1/metrics', intervalMs: 60_000 }],
  [
    {
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a',
      OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: 'http://b/own',
      OTEL_METRIC_EXPORT_INTERVAL: '500',
    },
    { url: 'http://b/own', intervalMs: 500 },
  ],
  [{ OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'http://b/own' }, undefined],
  [{ OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_METRICS_EXPORTER: 'none' }, undefined],
] as const)('metrics of %o are sent to %o', ([set, expected]) => {
  expect(read(set).metricsExport).toEqual(expected)
})

test('a server without the settings of metrics sends none', () => {
  const set = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a' }
  expect(createTelemetry(readSettings(telemetrySettings, set)).metricsExport).toBeUndefined()
})

test.for([
  ['', false],
  ['http', false],
  ['gen_ai_latest_experimental_not', false],
  ['gen_ai_latest_experimental', true],
  ['http/dup, gen_ai_latest_experimental ', true],
] as const)('the opt-in %o is the current GenAI conventions: %s', ([list, isLatest]) => {
  const set = { OTEL_EXPORTER_OTLP_ENDPOINT: 'http://a', OTEL_SEMCONV_STABILITY_OPT_IN: list }
  expect(read(set).traces?.hasLatestGenAi).toBe(isLatest)
})

test.for([
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'ftp://secret'],
  ['OTEL_EXPORTER_OTLP_ENDPOINT', 'secret'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'secret'],
  ['OTEL_EXPORTER_OTLP_HEADERS', 'a b=secret'],
  ['OTEL_EXPORTER_OTLP_HEADERS', '=secret'],
  ['OTEL_RESOURCE_ATTRIBUTES', 'secret'],
  ['OTEL_TRACES_SAMPLER_ARG', '2'],
  ['OTEL_EXPORTER_OTLP_METRICS_ENDPOINT', 'secret'],
  ['OTEL_METRICS_EXPORTER', 'secret'],
  ['OTEL_METRIC_EXPORT_INTERVAL', '99'],
  ['SLIPWAY_METRICS_OPEN', 'secret'],
] as const)('%s with %s is refused by its name, without its value', ([name, value]) => {
  const refuse = () => read({ [name]: value })
  expect(refuse).toThrow(name)
  expect(refuse).not.toThrow('secret')
})
