import type { Watch, Work, WorkEnd } from '@slipway/agent'
import type { OpenSpan, Traces } from '@slipway/http'
import { Counts, type Family, family, secondBounds, Tallies } from '@slipway/protocol'
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
const callBounds = [0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30, 60, 120, 300]
const runBounds = [0.5, 1, 5, 10, 30, 60, 300, 900, 3_600]

/** The provider of a model as a word of a closed set. */
export function providerOf(model: string): string {
  const prefix = model.slice(0, Math.max(0, model.indexOf('/')))
  return providers.has(prefix) ? prefix : 'other'
}

/** What the conversations of a server have done, in numbers; and as spans, when somebody wants traces. */
export class WorkNumbers {
  readonly #traces: Traces | undefined
  readonly #runs = new Counts('outcome')
  readonly #runSeconds = new Tallies(runBounds)
  readonly #calls = new Counts('provider', 'outcome')
  readonly #callSeconds = new Tallies(callBounds, 'provider')
  readonly #tokens = new Counts('provider', 'kind')
  readonly #cost = new Counts('provider')
  readonly #tools = new Counts('tool', 'outcome')
  readonly #toolSeconds = new Tallies(secondBounds, 'tool')
  readonly #condensations = new Counts('outcome')

  constructor(traces: Traces | undefined) {
    this.#traces = traces
  }

  /** To be handed to conversations. */
  readonly watch: Watch = (work) => {
    const startedMs = performance.now()
    const span = this.#traces === undefined ? undefined : begin(this.#traces, work)
    return {
      within: (run) => (span === undefined ? run() : span.within(run)),
      end: (end) => {
        this.#count(work, end, (performance.now() - startedMs) / 1000)
        if (span !== undefined) finish(span, work, end)
      },
    }
  }

  /** The same log with a span for each append, when somebody wants traces. */
  traced(log: EventLog): EventLog {
    const traces = this.#traces
    if (traces === undefined) return log
    return {
      append: async (conversation, events, options) => {
        const span = traces.begin('append', { attributes: { 'slipway.events': events.length } })
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

  #count(work: Work, { outcome, used }: WorkEnd, seconds: number): void {
    if (work.kind === 'run') {
      this.#runs.add({ outcome })
      this.#runSeconds.add({}, seconds)
    } else if (work.kind === 'condensation') this.#condensations.add({ outcome })
    else if (work.kind === 'tool') {
      this.#tools.add({ tool: work.tool, outcome })
      this.#toolSeconds.add({ tool: work.tool }, seconds)
    } else {
      const provider = providerOf(work.model)
      this.#calls.add({ provider, outcome })
      this.#callSeconds.add({ provider }, seconds)
      if (used === undefined) return
      this.#cost.add({ provider }, used.cost)
      for (const [kind, name] of tokenKinds) this.#tokens.add({ provider, kind }, used.usage[name])
    }
  }

  families(): readonly Family[] {
    return [
      family('runs_total', 'counter', 'Runs that ended, by the status they left.', this.#runs.samples),
      family('run_duration_seconds', 'histogram', 'Time of runs.', this.#runSeconds.samples),
      family(
        'model_calls_total',
        'counter',
        'Questions to models by provider and outcome.',
        this.#calls.samples,
      ),
      family(
        'model_call_duration_seconds',
        'histogram',
        'Time of questions to models, retries included.',
        this.#callSeconds.samples,
      ),
      family('model_tokens_total', 'counter', 'Tokens by provider and kind.', this.#tokens.samples),
      family('model_cost_dollars_total', 'counter', 'Cost where prices are known.', this.#cost.samples),
      family('tool_calls_total', 'counter', 'Tool calls by kind of tool and outcome.', this.#tools.samples),
      family('tool_call_duration_seconds', 'histogram', 'Time of tool calls.', this.#toolSeconds.samples),
      family('condensations_total', 'counter', 'Condensations by outcome.', this.#condensations.samples),
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

function begin(traces: Traces, work: Work): OpenSpan {
  if (work.kind === 'model') {
    const attributes = { 'gen_ai.system': providerOf(work.model), 'gen_ai.request.model': work.model }
    return traces.begin('model call', { attributes, isOutgoing: true })
  }
  const attributes = work.kind === 'tool' ? { 'slipway.tool': work.tool } : {}
  return traces.begin(work.kind === 'tool' ? 'tool call' : work.kind, { attributes })
}

function finish(span: OpenSpan, work: Work, { outcome, isFailure, used }: WorkEnd): void {
  span.set({ 'slipway.outcome': outcome })
  if (work.kind === 'model' && used !== undefined) {
    span.set({
      'gen_ai.usage.input_tokens': used.usage.prompt_tokens,
      'gen_ai.usage.output_tokens': used.usage.completion_tokens,
    })
  }
  span.end(isFailure ? outcome : undefined)
}
