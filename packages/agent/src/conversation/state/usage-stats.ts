import type { LimitScope, TokenUsage } from '@slipway/protocol'
import type { BrokenAttempt, ModelReply } from '../../llm/model.ts'
import { type Amounts, LimitUsage } from './limit-usage.ts'

/** Most rows of single replies; the newest stay. */
const maxRows = 50

interface UsageMetrics {
  model_name: string
  accumulated_cost: number
  max_budget_per_task: null
  accumulated_token_usage: TokenUsage | null
  costs: { model: string; cost: number; timestamp: number }[]
  response_latencies: { model: string; latency: number; response_id: string }[]
  token_usages: TokenUsage[]
}

interface SavedStats {
  readonly usage_to_metrics?: Record<string, UsageMetrics>
  readonly limits?: ConstructorParameters<typeof LimitUsage>[0]
}

let lastVersion = 0

/** The model usage of a conversation by usage id (wire: stats). */
export class UsageStats {
  /** Another number after each change of what `toJSON` says; no two objects share one. */
  version = ++lastVersion
  /** What limits count besides cost and tokens. */
  readonly limits: LimitUsage
  readonly #metrics: Map<string, UsageMetrics>

  /** `text` is an earlier result of `toRecord`. */
  constructor(text: string | null = null) {
    const saved: SavedStats = text === null ? {} : JSON.parse(text)
    this.limits = new LimitUsage(saved.limits)
    this.#metrics = new Map(Object.entries(saved.usage_to_metrics ?? {}))
  }

  /** Includes the attempts before the reply whose streams broke. `now` in microseconds. */
  addReply(reply: ModelReply, usageId: string, now: number): void {
    for (const attempt of reply.brokenAttempts ?? []) this.addAttempt(attempt, usageId, now)
    this.addAttempt(reply, usageId, now)
  }

  /** `now` in microseconds. */
  addAttempt(reply: BrokenAttempt, usageId: string, now: number): void {
    const metrics = this.#metrics.get(usageId) ?? emptyMetrics(reply.model)
    this.#metrics.set(usageId, metrics)
    this.version = ++lastVersion
    metrics.model_name = reply.model
    metrics.accumulated_cost += reply.cost
    metrics.accumulated_token_usage = addUsage(metrics.accumulated_token_usage, reply.usage)
    appendBounded(metrics.costs, { model: reply.model, cost: reply.cost, timestamp: now / 1_000_000 })
    appendBounded(metrics.response_latencies, {
      model: reply.model,
      latency: reply.latencyMs / 1000,
      response_id: reply.responseId,
    })
    appendBounded(metrics.token_usages, reply.usage)
  }

  /** Replaces the usage under an id by the total of other statistics. */
  replace(usageId: string, other: UsageStats): void {
    const total = totalMetrics([...other.#metrics.values()])
    if (total === undefined) return
    this.#metrics.set(usageId, total)
    this.version = ++lastVersion
  }

  /** Dollars over all usage ids. */
  get cost(): number {
    return [...this.#metrics.values()].reduce((total, metrics) => total + metrics.accumulated_cost, 0)
  }

  /** Input and output tokens over all usage ids. */
  get tokens(): number {
    return [...this.#metrics.values()].reduce((total, { accumulated_token_usage: usage }) => {
      return total + (usage === null ? 0 : usage.prompt_tokens + usage.completion_tokens)
    }, 0)
  }

  /** What the run, or the conversation, has used. */
  used(scope: LimitScope): Amounts {
    return this.limits.used(scope, this)
  }

  /** A run that began at this position. */
  enterRun(position: number): void {
    this.limits.enterRun(position, this)
  }

  /** The text for the conversation's record. */
  toRecord(): string {
    return JSON.stringify({ ...this.toJSON(), limits: this.limits })
  }

  /** For REST, with the newest rows of single replies. */
  toJSON(): { usage_to_metrics: Record<string, UsageMetrics> } {
    return { usage_to_metrics: Object.fromEntries(this.#metrics) }
  }

  /** For sockets, without rows of single replies. */
  snapshot(): { usage_to_metrics: Record<string, unknown> } {
    const short = [...this.#metrics].map(([id, metrics]) => [id, withoutRows(metrics)] as const)
    return { usage_to_metrics: Object.fromEntries(short) }
  }
}

/** All usage ids together, or null when there are none (wire: ConversationInfo.metrics). */
export function combineMetrics(stats: UsageStats): Record<string, unknown> | null {
  const total = totalMetrics(Object.values(stats.toJSON().usage_to_metrics))
  return total === undefined ? null : withoutRows(total)
}

function totalMetrics(all: readonly UsageMetrics[]): UsageMetrics | undefined {
  const [first] = all
  if (first === undefined) return undefined
  const total = emptyMetrics(first.model_name)
  for (const metrics of all) {
    total.accumulated_cost += metrics.accumulated_cost
    const usage = metrics.accumulated_token_usage
    if (usage !== null) total.accumulated_token_usage = addUsage(total.accumulated_token_usage, usage)
    for (const row of metrics.costs) appendBounded(total.costs, row)
    for (const row of metrics.response_latencies) appendBounded(total.response_latencies, row)
    for (const row of metrics.token_usages) appendBounded(total.token_usages, row)
  }
  return total
}

function withoutRows({ costs: _, response_latencies: __, token_usages: ___, ...rest }: UsageMetrics) {
  return rest
}

function emptyMetrics(model: string): UsageMetrics {
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

function appendBounded<T>(rows: T[], row: T): void {
  rows.push(row)
  if (rows.length > maxRows) rows.splice(0, rows.length - maxRows)
}

function addUsage(total: TokenUsage | null, usage: TokenUsage): TokenUsage {
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
