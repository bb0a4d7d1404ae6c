import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { bashStep, finishStep, scriptedModel } from '../support/agent-driver.ts'
import { startAgentServer } from '../support/agent-server.ts'
import { AgentServerApi } from '../support/agent-server-api.ts'
import { readSeries } from '../support/metrics.ts'

const key = 'telemetry-session-key-0123456789'
const prompt = 'a prompt that no one else may see'
const receiverKey = 'key-of-the-receiver-0123456789'
const modelKey = 'sk-of-the-model-0123456789'

interface Span {
  readonly traceId: string
  readonly spanId: string
  readonly parentSpanId?: string
  readonly name: string
  readonly attributes: readonly { readonly key: string; readonly value: Readonly<Record<string, unknown>> }[]
}

type Values = Readonly<Record<string, unknown>>

interface HistogramPoint {
  readonly count: number
  readonly sum: number
  readonly explicitBounds: readonly number[]
  readonly bucketCounts: readonly number[]
  readonly values: Values
}

interface Histogram {
  readonly unit: string
  readonly points: readonly HistogramPoint[]
}

/** Receives traces and metrics by OTLP over HTTP. */
async function openOtlpReceiver() {
  const spans: Span[] = []
  const histograms = new Map<string, Histogram>()
  const keys = new Set<string | undefined>()
  let text = ''
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString()
    text += body
    keys.add(request.headers.authorization)
    const { resourceSpans = [], resourceMetrics = [] } = JSON.parse(body)
    expect(request.url).toBe(resourceMetrics.length > 0 ? '/v1/metrics' : '/v1/traces')
    for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans)
    for (const { scopeMetrics } of resourceMetrics)
      for (const { metrics } of scopeMetrics)
        for (const { name, unit, histogram } of metrics) {
          expect(histogram.aggregationTemporality).toBe(2)
          const points = histogram.dataPoints.map((point: Pick<Span, 'attributes'>) => ({
            ...point,
            values: readAttributes(point),
          }))
          histograms.set(name, { unit, points })
        }
    response.writeHead(200, { 'content-type': 'application/json' }).end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = async () => {
    server.closeAllConnections()
    server.close()
  }
  const url = `http://127.0.0.1:${port}`
  return { spans, histograms, keys, text: () => text, url, [Symbol.asyncDispose]: close }
}

function readAttributes({ attributes }: Pick<Span, 'attributes'>): Values {
  return Object.fromEntries(attributes.map(({ key, value }) => [key, Object.values(value)[0]]))
}

async function createDirectory() {
  const path = await mkdtemp(join(tmpdir(), 'slipway-telemetry-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) }
}

/** Runs a conversation with one command to its end; returns its id. */
async function runConversation(
  api: AgentServerApi,
  directory: string,
  headers: Record<string, string> = {},
  steps: Parameters<typeof scriptedModel>[0] = [bashStep('echo hello'), finishStep()],
): Promise<string> {
  const llm = { ...scriptedModel(steps), api_key: modelKey }
  const { status, body } = await api.requestJson<{ id: string }>('/api/conversations', {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({
      agent: { llm, tools: [{ name: 'terminal' }] },
      workspace: { working_dir: join(directory, 'a-workspace-of-somebody') },
      initial_message: { content: [{ type: 'text', text: prompt }] },
      autotitle: false,
    }),
  })
  expect(status).toBe(201)
  const info = () => api.requestJson<{ execution_status: string }>(`/api/conversations/${body.id}`)
  while (!['finished', 'error'].includes((await info()).body.execution_status)) await sleep(20)
  return body.id
}

function createApi(url: string): AgentServerApi {
  return new AgentServerApi({ url, headers: { 'x-session-api-key': key } })
}

test('a run appears in metrics, traces and audit, without its content', async () => {
  await using there = await openOtlpReceiver()
  await using directory = await createDirectory()
  const audit = join(directory.path, 'audit.log')
  const server = await startAgentServer(join(directory.path, 'data'), {
    SLIPWAY_SESSION_API_KEY: key,
    SLIPWAY_AUDIT_LOG: audit,
    OTEL_EXPORTER_OTLP_ENDPOINT: there.url,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${receiverKey}`,
    SLIPWAY_LOG_LEVEL: 'debug',
  })
  const traceId = '0af7651916cd43dd8448eb211c80319c'
  let id = ''
  let metrics = ''
  try {
    const api = createApi(server.url)
    id = await runConversation(api, directory.path, { traceparent: `00-${traceId}-b7ad6b7169203331-01` })
    await api.sendJson('POST', '/api/bash/execute_bash_command', { command: 'false' })
    metrics = await (await api.fetch('/metrics')).text()
  } finally {
    await server.stop()
  }
  const value = (series: string) => readSeries(metrics, series)
  expect(value('slipway_events_appended_total')).toBeGreaterThan(5)
  expect(value('slipway_conversations{status="finished"}')).toBe(1)
  expect(value('slipway_conversations_loaded')).toBe(1)
  expect(value('slipway_runs_total{outcome="finished"}')).toBe(1)
  expect(value('slipway_run_duration_seconds_count')).toBe(1)
  expect(value('slipway_runs_active')).toBe(0)
  expect(value('slipway_model_calls_total{provider="scripted",outcome="ok"}')).toBe(2)
  expect(value('slipway_model_tokens_total{provider="scripted",kind="prompt"}')).toBeGreaterThan(0)
  expect(value('slipway_tool_calls_total{tool="TerminalTool",outcome="ok"}')).toBe(1)
  expect(value('slipway_bash_commands_total{outcome="failed"}')).toBe(1)
  expect(value('slipway_commit_changes_count')).toBeGreaterThan(2)
  expect(value('process_resident_memory_bytes')).toBeGreaterThan(0)

  const inTrace = there.spans.filter((span) => span.traceId === traceId)
  const named = (name: string) => inTrace.filter((span) => span.name === name)
  const [request] = named('POST /api/conversations')
  const [run] = named('run')
  expect(request?.parentSpanId).toBe('b7ad6b7169203331')
  expect(run?.parentSpanId).toBe(request?.spanId)
  const calls = named('model call')
  expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual([run?.spanId, run?.spanId])
  expect(calls[0]?.attributes.map(({ key }) => key).sort()).toEqual([
    'gen_ai.request.model',
    'gen_ai.system',
    'gen_ai.usage.input_tokens',
    'gen_ai.usage.output_tokens',
    'slipway.outcome',
  ])
  expect(named('tool call')[0]?.parentSpanId).toBe(run?.spanId)
  expect(named('append').some(({ parentSpanId }) => parentSpanId === run?.spanId)).toBe(true)

  expect([...there.keys]).toEqual([`Bearer ${receiverKey}`])

  const lines = (await readFile(audit, 'utf8')).trimEnd().split('\n')
  expect(lines.map((line) => JSON.parse(line))).toEqual([
    expect.objectContaining({ audit: true, method: 'POST', route: '/api/conversations', status: 201 }),
    expect.objectContaining({
      route: '/api/bash/execute_bash_command',
      caller: expect.stringMatching(/^key:/),
    }),
  ])
  const seen = { metrics, traces: there.text(), audit: lines.join(), log: server.output() }
  for (const [where, text] of Object.entries(seen))
    for (const hidden of [key, receiverKey, prompt, modelKey, 'a-workspace-of-somebody', 'echo hello'])
      expect(text, where).not.toContain(hidden)
  for (const text of [metrics, there.text()]) expect(text).not.toContain(id)
})

test('with the opt-in, spans follow the current GenAI conventions, without content', async () => {
  await using there = await openOtlpReceiver()
  await using directory = await createDirectory()
  const server = await startAgentServer(join(directory.path, 'data'), {
    SLIPWAY_SESSION_API_KEY: key,
    OTEL_EXPORTER_OTLP_ENDPOINT: there.url,
    OTEL_SEMCONV_STABILITY_OPT_IN: 'http, gen_ai_latest_experimental',
  })
  try {
    await runConversation(createApi(server.url), directory.path)
  } finally {
    await server.stop()
  }
  const spans = (operation: string) =>
    there.spans
      .map((span) => ({
        ...span,
        values: readAttributes(span),
      }))
      .filter(({ values }) => values['gen_ai.operation.name'] === operation)
  const [run] = spans('invoke_agent')
  expect(run?.name).toBe('invoke_agent')
  const calls = spans('chat')
  expect(calls.map(({ parentSpanId }) => parentSpanId)).toEqual([run?.spanId, run?.spanId])
  const { values, name } = calls[0] ?? {}
  expect(name).toBe(`chat ${values?.['gen_ai.request.model']}`)
  expect(values).toMatchObject({ 'gen_ai.provider.name': 'scripted', 'slipway.outcome': 'ok' })
  expect(
    Object.keys(values ?? {})
      .filter((one) => one.startsWith('gen_ai.usage.'))
      .sort(),
  ).toEqual([
    'gen_ai.usage.cache_creation.input_tokens',
    'gen_ai.usage.cache_read.input_tokens',
    'gen_ai.usage.input_tokens',
    'gen_ai.usage.output_tokens',
  ])
  const [tool] = spans('execute_tool').filter(({ values }) => values['gen_ai.tool.name'] === 'TerminalTool')
  expect(tool).toMatchObject({ name: 'execute_tool TerminalTool', parentSpanId: run?.spanId })
  const text = there.text()
  for (const hidden of ['gen_ai.system', 'model call', key, prompt, modelKey, 'echo hello'])
    expect(text).not.toContain(hidden)
})

test('questions to models are metrics of the GenAI conventions, without content', async () => {
  await using there = await openOtlpReceiver()
  await using directory = await createDirectory()
  const server = await startAgentServer(join(directory.path, 'data'), {
    SLIPWAY_SESSION_API_KEY: key,
    OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: `${there.url}/v1/metrics`,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=Bearer%20${receiverKey}`,
    OTEL_METRIC_EXPORT_INTERVAL: '200',
  })
  let id = ''
  let model = ''
  try {
    const api = createApi(server.url)
    id = await runConversation(api, directory.path)
    model = (
      await api.requestJson<{ agent: { llm: { model: string } } }>(`/api/conversations/${id}`)
    ).body.agent.llm.model.replace('scripted/', '')
    const duration = () => there.histograms.get('gen_ai.client.operation.duration')?.points ?? []
    while (duration()[0]?.count !== 2) await sleep(20)
    // What happens between the last export and the stop is sent at the stop.
    await runConversation(api, directory.path, {}, [{ error: 'of a private question' }])
  } finally {
    await server.stop()
  }
  const common = {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'scripted',
    'gen_ai.request.model': model,
  }
  const duration = there.histograms.get('gen_ai.client.operation.duration')
  const usage = there.histograms.get('gen_ai.client.token.usage')
  expect([duration?.unit, usage?.unit]).toEqual(['s', '{token}'])
  const [answered, failed] = duration?.points ?? []
  expect(duration?.points).toHaveLength(2)
  expect([answered?.values, answered?.count]).toEqual([common, 2])
  expect(answered?.explicitBounds).toEqual([
    0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92,
  ])
  expect(failed?.values).toEqual({ ...common, 'error.type': expect.stringMatching(/^\w+$/) })
  expect(usage?.points.map(({ values }) => values)).toEqual([
    { ...common, 'gen_ai.token.type': 'input' },
    { ...common, 'gen_ai.token.type': 'output' },
  ])
  const [input] = usage?.points ?? []
  expect(input?.count).toBe(2)
  expect(input?.sum).toBeGreaterThan(0)
  expect(input?.explicitBounds).toEqual(Array.from({ length: 14 }, (_, power) => 4 ** power))
  expect(input?.bucketCounts.reduce((sum, count) => sum + count, 0)).toBe(2)
  expect(there.spans).toEqual([])
  expect([...there.keys]).toEqual([`Bearer ${receiverKey}`])
  const seen = { sent: there.text(), log: server.output() }
  for (const [where, text] of Object.entries(seen))
    for (const hidden of [key, receiverKey, prompt, modelKey, 'of a private question', 'echo hello'])
      expect(text, where).not.toContain(hidden)
  expect(there.text()).not.toContain(id)
})

test('a receiver that is away or hangs holds up neither a run nor the stop', async () => {
  const silent = createServer(() => {}).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  try {
    for (const url of ['http://127.0.0.1:9', `http://127.0.0.1:${port}`]) {
      await using directory = await createDirectory()
      const server = await startAgentServer(join(directory.path, 'data'), {
        SLIPWAY_SESSION_API_KEY: key,
        OTEL_EXPORTER_OTLP_ENDPOINT: url,
        OTEL_METRIC_EXPORT_INTERVAL: '100',
      })
      await runConversation(createApi(server.url), directory.path)
      const stoppedMs = performance.now()
      await server.stop()
      expect(performance.now() - stoppedMs).toBeLessThan(8_000)
    }
  } finally {
    silent.closeAllConnections()
    silent.close()
  }
})

test('metrics require a key', async () => {
  await using directory = await createDirectory()
  const server = await startAgentServer(join(directory.path, 'data'), { SLIPWAY_SESSION_API_KEY: key })
  try {
    const statuses: number[] = []
    for (const headers of [{}, { authorization: `Bearer ${key}` }])
      statuses.push((await fetch(`${server.url}/metrics`, { headers })).status)
    expect(statuses).toEqual([401, 200])
  } finally {
    await server.stop()
  }
})

test('an audit file that cannot be opened, and an invalid header, prevent the start', {
  timeout: 180_000,
}, async () => {
  await using directory = await createDirectory()
  const start = (env: Record<string, string>) =>
    startAgentServer(join(directory.path, 'data'), env).then(
      async (server) => await server.stop(),
      (error: Error) => error.message,
    )
  expect(await start({ SLIPWAY_AUDIT_LOG: join(directory.path, 'nowhere', 'x.log') })).toMatch(
    /cannot be opened/,
  )
  const secret = 'secret-without-a-name'
  const refused = await start({
    OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:9',
    OTEL_EXPORTER_OTLP_HEADERS: secret,
  })
  expect(refused).toMatch(/OTEL_EXPORTER_OTLP_HEADERS/)
  expect(refused).not.toContain(secret)
})
