import type { TokenUsage } from '@slipway/protocol'
import type { Answered } from '../../llm/model.ts'

/** Rows of single answers that are kept, the newest. */
const maxRows = 50

interface Metrics {
  model_name: string
  accumulated_cost: number
  max_budget_per_task: null
  accumulated_token_usage: TokenUsage | null
  costs: { model: string; cost: number; timestamp: number }[]
  response_latencies: { model: string; latency: number; response_id: string }[]
  token_usages: TokenUsage[]
}

/** What the models of a conversation have used, by usage id (wire: stats). */
export class Stats {
  readonly #metrics: Map<string, Metrics>

  /** `text` as `toJSON` gave it before. */
  constructor(text: string | null = null) {
    const saved: { usage_to_metrics?: Record<string, Metrics> } = text === null ? {} : JSON.parse(text)
    this.#metrics = new Map(Object.entries(saved.usage_to_metrics ?? {}))
  }

  /** `now` in microseconds. */
  add(answer: Answered, usageId: string, now: number): void {
    const metrics = this.#metrics.get(usageId) ?? empty(answer.model)
    this.#metrics.set(usageId, metrics)
    metrics.model_name = answer.model
    metrics.accumulated_cost += answer.cost
    metrics.accumulated_token_usage = sum(metrics.accumulated_token_usage, answer.usage)
    keep(metrics.costs, { model: answer.model, cost: answer.cost, timestamp: now / 1_000_000 })
    keep(metrics.response_latencies, {
      model: answer.model,
      latency: answer.latencyMs / 1000,
      response_id: answer.responseId,
    })
    keep(metrics.token_usages, answer.usage)
  }

  /** All that somebody else's models have used, in the place of what was there under the id. */
  put(usageId: string, used: Stats): void {
    const all = [...used.#metrics.values()]
    const [first] = all
    if (first === undefined) return
    const whole = empty(first.model_name)
    for (const metrics of all) {
      whole.accumulated_cost += metrics.accumulated_cost
      const usage = metrics.accumulated_token_usage
      if (usage !== null) whole.accumulated_token_usage = sum(whole.accumulated_token_usage, usage)
      for (const row of metrics.costs) keep(whole.costs, row)
      for (const row of metrics.response_latencies) keep(whole.response_latencies, row)
      for (const row of metrics.token_usages) keep(whole.token_usages, row)
    }
    this.#metrics.set(usageId, whole)
  }

  /** Dollars over all usage ids. */
  get cost(): number {
    return [...this.#metrics.values()].reduce((total, metrics) => total + metrics.accumulated_cost, 0)
  }

  /** As REST answers it, with the newest rows of single answers. */
  toJSON(): { usage_to_metrics: Record<string, unknown> } {
    return { usage_to_metrics: Object.fromEntries(this.#metrics) }
  }

  /** As sockets are told of it: without rows of single answers. */
  snapshot(): { usage_to_metrics: Record<string, unknown> } {
    const short = [...this.#metrics].map(
      ([id, { costs: _, response_latencies: __, token_usages: ___, ...rest }]) => [id, rest] as const,
    )
    return { usage_to_metrics: Object.fromEntries(short) }
  }
}

/** All usage ids together, or null when there are none (wire: ConversationInfo.metrics). */
export function combinedMetrics(stats: Stats): Record<string, unknown> | null {
  const all: Metrics[] = Object.values(stats.toJSON().usage_to_metrics) as Metrics[]
  if (all.length === 0) return null
  return {
    model_name: all[0]?.model_name ?? 'default',
    accumulated_cost: stats.cost,
    max_budget_per_task: null,
    accumulated_token_usage: all.reduce<TokenUsage | null>(
      (total, { accumulated_token_usage: usage }) => (usage === null ? total : sum(total, usage)),
      null,
    ),
  }
}

function empty(model: string): Metrics {
  return {
    model_name: model,
    accumulated_cost: 0,
    max_budget_per_task: null,
    accumulated_token_usage: null,
    costs: [],
    response_latencies: [],
    token_usages: [],
  }
}

function keep<T>(rows: T[], row: T): void {
  rows.push(row)
  if (rows.length > maxRows) rows.splice(0, rows.length - maxRows)
}

function sum(total: TokenUsage | null, usage: TokenUsage): TokenUsage {
  if (total === null) return usage
  return {
    model: usage.model,
    prompt_tokens: total.prompt_tokens + usage.prompt_tokens,
    completion_tokens: total.completion_tokens + usage.completion_tokens,
    cache_read_tokens: total.cache_read_tokens + usage.cache_read_tokens,
    cache_write_tokens: total.cache_write_tokens + usage.cache_write_tokens,
    reasoning_tokens: total.reasoning_tokens + usage.reasoning_tokens,
    context_window: usage.context_window,
    per_turn_token: usage.per_turn_token,
    response_id: '',
  }
}
