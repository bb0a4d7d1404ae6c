import type { MonitoredWork, RunMonitor, WorkOutcome } from '@slipway/agent'
import type { ActiveSpan, Traces } from '@slipway/http'
import { CounterVec, durationBuckets, HistogramVec, type MetricFamily, metricFamily } from '@slipway/protocol'
import type { EventLog } from '@slipway/storage'

/** Models are told apart by provider; what users write into their settings is no label. */
const providers: ReadonlySet<string> = new Set([
  'anthropic',
  'azure',
  'bedrock',
  'deepseek',
  'gemini',
  'google',
  'groq',
  'hosted_vllm',
  'litellm_proxy',
  'lm_studio',
  'mistral',
  'ollama',
  'ollama_chat',
  'openai',
  'openai_like',
  'openrouter',
  'scripted',
  'vllm',
  'xai',
])
const callBuckets = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300]
const runBuckets = [0.5, 1, 5, 10, 30, 60, 300, 900, 3_600]

/** The provider of a model as a word of a closed set. */
export function modelProvider(model: string): string {
  const prefix = model.slice(0, Math.max(0, model.indexOf('/')))
  return providers.has(prefix) ? prefix : 'other'
}

/** What the conversations of a server have done, in numbers; and as spans, when somebody wants traces. */
export class WorkMetrics {
  readonly #traces: Traces | undefined
  readonly #runs = new CounterVec('outcome')
  readonly #runSeconds = new HistogramVec(runBuckets)
  readonly #calls = new CounterVec('provider', 'outcome')
  readonly #callSeconds = new HistogramVec(callBuckets, 'provider')
  readonly #tokens = new CounterVec('provider', 'kind')
  readonly #cost = new CounterVec('provider')
  readonly #tools = new CounterVec('tool', 'outcome')
  readonly #toolSeconds = new HistogramVec(durationBuckets, 'tool')
  readonly #condensations = new CounterVec('outcome')

  constructor(traces: Traces | undefined) {
    this.#traces = traces
  }

  /** To be handed to conversations. */
  readonly monitor: RunMonitor = (work) => {
    const startedMs = performance.now()
    const span = this.#traces === undefined ? undefined : beginSpan(this.#traces, work)
    return {
      within: (run) => (span === undefined ? run() : span.run(run)),
      end: (end) => {
        this.#record(work, end, (performance.now() - startedMs) / 1000)
        if (span !== undefined) endSpan(span, work, end)
      },
    }
  }

  /** The same log with a span for each append, when somebody wants traces. */
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

  #record(work: MonitoredWork, { outcome, modelUsage }: WorkOutcome, seconds: number): void {
    if (work.kind === 'run') {
      this.#runs.increment({ outcome })
      this.#runSeconds.observe({}, seconds)
    } else if (work.kind === 'condensation') this.#condensations.increment({ outcome })
    else if (work.kind === 'tool') {
      this.#tools.increment({ tool: work.tool, outcome })
      this.#toolSeconds.observe({ tool: work.tool }, seconds)
    } else {
      const provider = modelProvider(work.model)
      this.#calls.increment({ provider, outcome })
      this.#callSeconds.observe({ provider }, seconds)
      if (modelUsage === undefined) return
      this.#cost.increment({ provider }, modelUsage.cost)
      for (const [kind, name] of tokenKinds)
        this.#tokens.increment({ provider, kind }, modelUsage.usage[name])
    }
  }

  metricFamilies(): readonly MetricFamily[] {
    return [
      metricFamily('runs_total', 'counter', 'Runs that ended, by the status they left.', this.#runs.samples),
      metricFamily('run_duration_seconds', 'histogram', 'Time of runs.', this.#runSeconds.samples),
      metricFamily(
        'model_calls_total',
        'counter',
        'Questions to models by provider and outcome.',
        this.#calls.samples,
      ),
      metricFamily(
        'model_call_duration_seconds',
        'histogram',
        'Time of questions to models, retries included.',
        this.#callSeconds.samples,
      ),
      metricFamily('model_tokens_total', 'counter', 'Tokens by provider and kind.', this.#tokens.samples),
      metricFamily('model_cost_dollars_total', 'counter', 'Cost where prices are known.', this.#cost.samples),
      metricFamily(
        'tool_calls_total',
        'counter',
        'Tool calls by kind of tool and outcome.',
        this.#tools.samples,
      ),
      metricFamily(
        'tool_call_duration_seconds',
        'histogram',
        'Time of tool calls.',
        this.#toolSeconds.samples,
      ),
      metricFamily(
        'condensations_total',
        'counter',
        'Condensations by outcome.',
        this.#condensations.samples,
      ),
    ]
  }
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

function endSpan(
  span: ActiveSpan,
  work: MonitoredWork,
  { outcome, isFailure, modelUsage }: WorkOutcome,
): void {
  span.setAttributes({ 'slipway.outcome': outcome })
  if (work.kind === 'model' && modelUsage !== undefined) {
    span.setAttributes({
      'gen_ai.usage.input_tokens': modelUsage.usage.prompt_tokens,
      'gen_ai.usage.output_tokens': modelUsage.usage.completion_tokens,
    })
  }
  span.end(isFailure ? outcome : undefined)
}
