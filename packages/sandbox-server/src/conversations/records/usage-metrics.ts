import { isRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'

type JsonObject = Record<string, unknown>

const tokenCounts = [
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
  'context_window',
  'per_turn_token',
] as const

/** The usage of a conversation (wire: MetricsSnapshot). */
export interface UsageMetrics {
  readonly model_name: string
  readonly accumulated_cost: number
  readonly max_budget_per_task: number | null
  readonly accumulated_token_usage: JsonObject | null
}

/** A report, not trusted: invalid numbers become 0. Undefined when it is not an object. */
export function parseMetrics(value: unknown): UsageMetrics | undefined {
  if (!isRecord(value)) return undefined
  const usage = value.accumulated_token_usage
  return {
    model_name: typeof value.model_name === 'string' ? firstChars(value.model_name, 200) : 'default',
    accumulated_cost: toAmount(value.accumulated_cost),
    max_budget_per_task: typeof value.max_budget_per_task === 'number' ? value.max_budget_per_task : null,
    accumulated_token_usage: isRecord(usage) ? parseTokenUsage(usage) : null,
  }
}

/** The sum over all models of a conversation, from the value of a `stats` update (`{usage_to_metrics}`). */
export function parseStatsMetrics(value: unknown): UsageMetrics | undefined {
  const models = isRecord(value) && isRecord(value.usage_to_metrics) ? value.usage_to_metrics : {}
  const [first, ...rest] = Object.values(models)
    .map(parseMetrics)
    .filter((metrics) => metrics !== undefined)
  return first && rest.reduce(sumMetrics, first)
}

function sumMetrics(a: UsageMetrics, b: UsageMetrics): UsageMetrics {
  return { ...a, ...combineUsage(a, b, (one, other) => one + other) }
}

/** Cost and tokens never decrease, although reports may arrive late or start at zero again. */
export function maxMetrics(
  previous: UsageMetrics | null | undefined,
  now: UsageMetrics | undefined,
): UsageMetrics | null {
  if (previous === null || previous === undefined || now === undefined) return now ?? previous ?? null
  return {
    ...now,
    ...combineUsage(previous, now, Math.max),
    max_budget_per_task: now.max_budget_per_task ?? previous.max_budget_per_task,
  }
}

function combineUsage(a: UsageMetrics, b: UsageMetrics, join: (a: number, b: number) => number) {
  const [usageA, usageB] = [a.accumulated_token_usage, b.accumulated_token_usage]
  const counts = tokenCounts.map((name) => [name, join(toAmount(usageA?.[name]), toAmount(usageB?.[name]))])
  return {
    accumulated_cost: join(a.accumulated_cost, b.accumulated_cost),
    accumulated_token_usage:
      usageA && usageB ? { ...usageB, ...Object.fromEntries(counts) } : (usageA ?? usageB),
  }
}

function parseTokenUsage(value: JsonObject): JsonObject {
  const counts = tokenCounts.map((name) => [name, Math.floor(toAmount(value[name]))])
  const text = (name: string) => (typeof value[name] === 'string' ? firstChars(value[name], 200) : '')
  return { model: text('model'), ...Object.fromEntries(counts), response_id: text('response_id') }
}

function toAmount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}
