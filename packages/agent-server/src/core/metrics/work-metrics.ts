import type { MonitoredWork, RunMonitor, WorkOutcome } from '@slipway/agent'
import type { ActiveSpan, MetricsExport, Traces } from '@slipway/http'
import { createCounter, createHistogram, type Metric } from '@slipway/shared/metrics'
import type { EventLog } from '@slipway/storage'
import { GenAiMetrics, genAiAttributes } from './gen-ai-metrics.ts'
import { modelProvider } from './model-provider.ts'

const callBuckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300]
const toolBuckets = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60]
const runBuckets = [0.5, 1, 5, 10, 30, 60, 300, 900, 3_600]

/** One set for each server of a process. */
function createMetrics() {
  return {
    runs: createCounter('slipway_runs_total', 'Runs that ended, by the status they left.', 'outcome'),
    runSeconds: createHistogram('slipway_run_duration_seconds', 'Time of runs.', runBuckets),
    calls: createCounter(
      'slipway_model_calls_total',
      'Questions to models by provider and outcome.',
      'provider',
      'outcome',
    ),
    callSeconds: createHistogram(
      'slipway_model_call_duration_seconds',
      'Time of questions to models, retries included.',
      callBuckets,
      'provider',
    ),
    tokens: createCounter('slipway_model_tokens_total', 'Tokens by provider and kind.', 'provider', 'kind'),
    cost: createCounter('slipway_model_cost_dollars_total', 'Cost where prices are known.', 'provider'),
    tools: createCounter(
      'slipway_tool_calls_total',
      'Tool calls by kind of tool and outcome.',
      'tool',
      'outcome',
    ),
    toolSeconds: createHistogram(
      'slipway_tool_call_duration_seconds',
      'Time of tool calls.',
      toolBuckets,
      'tool',
    ),
    condensations: createCounter('slipway_condensations_total', 'Condensations by outcome.', 'outcome'),
  }
}

interface WorkMetricsOptions {
  readonly traces?: Traces | undefined
  /** Spans follow the current GenAI conventions of OpenTelemetry. */
  readonly hasLatestGenAi?: boolean | undefined
  readonly metricsExport?: MetricsExport | undefined
}

/** Metrics of the work of conversations; spans and sent metrics when they are configured. */
export class WorkMetrics {
  readonly #traces: Traces | undefined
  readonly #hasLatestGenAi: boolean
  readonly #genAi: GenAiMetrics | undefined
  readonly #metrics = createMetrics()

  constructor({ traces, hasLatestGenAi = false, metricsExport }: WorkMetricsOptions = {}) {
    this.#traces = traces
    this.#hasLatestGenAi = hasLatestGenAi
    this.#genAi = metricsExport && new GenAiMetrics(metricsExport)
  }

  get all(): readonly Metric[] {
    return Object.values(this.#metrics)
  }

  readonly monitor: RunMonitor = (work) => {
    const startedMs = performance.now()
    const begin = this.#hasLatestGenAi ? beginGenAiSpan : beginSpan
    const span = this.#traces === undefined ? undefined : begin(this.#traces, work)
    return {
      within: (run) => (span === undefined ? run() : span.run(run)),
      end: (end) => {
        this.#record(work, end, (performance.now() - startedMs) / 1000)
        if (span !== undefined) endSpan(span, work, end, this.#hasLatestGenAi)
      },
    }
  }

  /** The same log, with a span for each append when traces are configured. */
  traceLog(log: EventLog): EventLog {
    const traces = this.#traces
    if (traces === undefined) return log
    return {
      append: async (conversation, events, options) => {
        const span = traces.startSpan('append', { attributes: { 'slipway.events': events.length } })
        try {
          const stored = await log.append(conversation, events, options)
          span.end()
          return stored
        } catch (error) {
          span.end('refused')
          throw error
        }
      },
      read: (conversation, after, limit, maxBytes) => log.read(conversation, after, limit, maxBytes),
      search: (conversation, query) => log.search(conversation, query),
      count: (conversation, filter) => log.count(conversation, filter),
      get: (conversation, ids) => log.get(conversation, ids),
      tail: (conversation, after, signal) => log.tail(conversation, after, signal),
    }
  }

  #record(work: MonitoredWork, end: WorkOutcome, seconds: number): void {
    const { outcome, modelUsage } = end
    if (work.kind === 'run') {
      this.#metrics.runs.inc({ outcome })
      this.#metrics.runSeconds.observe(seconds)
    } else if (work.kind === 'condensation') this.#metrics.condensations.inc({ outcome })
    else if (work.kind === 'tool') {
      this.#metrics.tools.inc({ tool: work.tool, outcome })
      this.#metrics.toolSeconds.observe({ tool: work.tool }, seconds)
    } else {
      this.#genAi?.record(work, end, seconds)
      const provider = modelProvider(work.model)
      this.#metrics.calls.inc({ provider, outcome })
      this.#metrics.callSeconds.observe({ provider }, seconds)
      if (modelUsage === undefined) return
      this.#metrics.cost.inc({ provider }, toAmount(modelUsage.cost))
      for (const [kind, name] of tokenKinds)
        this.#metrics.tokens.inc({ provider, kind }, toAmount(modelUsage.usage[name]))
    }
  }
}

/** A counter refuses other amounts, and a provider may report any. */
function toAmount(value: number): number {
  return value > 0 && Number.isFinite(value) ? value : 0
}

const tokenKinds = [
  ['prompt', 'prompt_tokens'],
  ['completion', 'completion_tokens'],
  ['cache_read', 'cache_read_tokens'],
  ['cache_write', 'cache_write_tokens'],
  ['reasoning', 'reasoning_tokens'],
] as const

function beginSpan(traces: Traces, work: MonitoredWork): ActiveSpan {
  if (work.kind === 'model') {
    const attributes = { 'gen_ai.system': modelProvider(work.model), 'gen_ai.request.model': work.model }
    return traces.startSpan('model call', { attributes, isOutgoing: true })
  }
  const attributes = work.kind === 'tool' ? { 'slipway.tool': work.tool } : {}
  return traces.startSpan(work.kind === 'tool' ? 'tool call' : work.kind, { attributes })
}

/** As `beginSpan`, by the current GenAI conventions. */
function beginGenAiSpan(traces: Traces, work: MonitoredWork): ActiveSpan {
  if (work.kind === 'condensation') return beginSpan(traces, work)
  if (work.kind === 'run')
    return traces.startSpan('invoke_agent', { attributes: { 'gen_ai.operation.name': 'invoke_agent' } })
  if (work.kind === 'tool') {
    const attributes = { 'gen_ai.operation.name': 'execute_tool', 'gen_ai.tool.name': work.tool }
    return traces.startSpan(`execute_tool ${work.tool}`, { attributes })
  }
  const attributes = genAiAttributes(work)
  const name = `chat ${attributes['gen_ai.request.model']}`
  return traces.startSpan(name, { attributes, isOutgoing: true })
}

function endSpan(
  span: ActiveSpan,
  work: MonitoredWork,
  { outcome, isFailure, modelUsage }: WorkOutcome,
  hasLatestGenAi: boolean,
): void {
  span.setAttributes({ 'slipway.outcome': outcome })
  if (hasLatestGenAi && isFailure) span.setAttributes({ 'error.type': outcome })
  if (work.kind === 'model' && modelUsage !== undefined) {
    span.setAttributes({
      'gen_ai.usage.input_tokens': modelUsage.usage.prompt_tokens,
      'gen_ai.usage.output_tokens': modelUsage.usage.completion_tokens,
    })
    if (hasLatestGenAi) {
      span.setAttributes({
        'gen_ai.usage.cache_read.input_tokens': modelUsage.usage.cache_read_tokens,
        'gen_ai.usage.cache_creation.input_tokens': modelUsage.usage.cache_write_tokens,
      })
    }
  }
  span.end(isFailure ? outcome : undefined)
}
