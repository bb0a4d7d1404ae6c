type Json = Record<string, unknown>

const tokenCounts = [
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
  'context_window',
  'per_turn_token',
] as const

/** What a conversation has used (wire: MetricsSnapshot). */
export interface Metrics {
  readonly model_name: string
  readonly accumulated_cost: number
  readonly max_budget_per_task: number | null
  readonly accumulated_token_usage: Json | null
}

/** What was reported, read with suspicion: numbers that are none are 0. Undefined when nothing was reported. */
export function metricsOf(value: unknown): Metrics | undefined {
  if (!isMap(value)) return undefined
  const usage = value.accumulated_token_usage
  return {
    model_name: typeof value.model_name === 'string' ? value.model_name.slice(0, 200) : 'default',
    accumulated_cost: amount(value.accumulated_cost),
    max_budget_per_task: typeof value.max_budget_per_task === 'number' ? value.max_budget_per_task : null,
    accumulated_token_usage: isMap(usage) ? usageOf(usage) : null,
  }
}

/** All of a conversation's models together: the value of a fact with the key `stats` (`{usage_to_metrics}`). */
export function metricsOfStats(value: unknown): Metrics | undefined {
  const parts = isMap(value) && isMap(value.usage_to_metrics) ? Object.values(value.usage_to_metrics) : []
  return parts
    .map(metricsOf)
    .reduce(
      (sum, part) => (sum === undefined || part === undefined ? (sum ?? part) : added(sum, part)),
      undefined,
    )
}

/** Neither cost nor tokens ever go down: reports may come late or begin anew. */
export function atLeastAsMuch(before: Metrics | null | undefined, now: Metrics | undefined): Metrics | null {
  if (before === null || before === undefined || now === undefined) return now ?? before ?? null
  return {
    ...now,
    accumulated_cost: Math.max(before.accumulated_cost, now.accumulated_cost),
    max_budget_per_task: now.max_budget_per_task ?? before.max_budget_per_task,
    accumulated_token_usage: combined(before.accumulated_token_usage, now.accumulated_token_usage, Math.max),
  }
}

function added(a: Metrics, b: Metrics): Metrics {
  return {
    ...a,
    accumulated_cost: a.accumulated_cost + b.accumulated_cost,
    accumulated_token_usage: combined(
      a.accumulated_token_usage,
      b.accumulated_token_usage,
      (one, other) => one + other,
    ),
  }
}

function combined(a: Json | null, b: Json | null, join: (a: number, b: number) => number): Json | null {
  if (a === null || b === null) return a ?? b
  const counts = tokenCounts.map((name) => [name, join(amount(a[name]), amount(b[name]))])
  return { ...b, ...Object.fromEntries(counts) }
}

function usageOf(value: Json): Json {
  const counts = tokenCounts.map((name) => [name, Math.floor(amount(value[name]))])
  const text = (name: string) => (typeof value[name] === 'string' ? value[name].slice(0, 200) : '')
  return { model: text('model'), ...Object.fromEntries(counts), response_id: text('response_id') }
}

function amount(value: unknown): number {
  return typeof value === 'number' && Number.isFinite(value) && value > 0 ? value : 0
}

function isMap(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
