import { formatInstant, type Instant } from '@slipway/protocol'
import { isRecord } from '@slipway/shared/json'

/** Tokens, and money in millionths of a dollar: sums of whole numbers do not drift. */
export const usageAmounts = [
  'cost',
  'prompt_tokens',
  'completion_tokens',
  'cache_read_tokens',
  'cache_write_tokens',
  'reasoning_tokens',
] as const
export type UsageAmounts = Readonly<Record<(typeof usageAmounts)[number], number>>

export const usageGroups = ['user', 'organization', 'model', 'day'] as const
export type UsageGroup = (typeof usageGroups)[number]

/** UTC days as `2026-01-31`, both included; of one user and one organisation if they are set. */
export interface UsageQuery {
  readonly by: UsageGroup
  readonly from: string
  readonly to: string
  readonly user?: string | undefined
  readonly org?: string | undefined
}

export interface UsageRow extends UsageAmounts {
  /** Id of a user or an organisation (null: none), name of a model, or a day. */
  readonly key: string | null
  /** That used a model in that time. */
  readonly conversations: number
}

/** How long sandboxes ran; not by model. */
export interface SandboxTimeRow {
  readonly key: string | null
  readonly micros: number
}

export interface UsageRows {
  /** In order of the keys. */
  sum(query: UsageQuery): Promise<readonly UsageRow[]>
  /** Of runs that have ended. */
  sumSandboxTime(query: UsageQuery): Promise<readonly SandboxTimeRow[]>
}

/** A sandbox may report anything: sums of ten million such amounts are still integers of the engines. */
const maxAmount = 1e12
const dayMicros = 86_400_000_000

/** What `members` of a conversation (its last MetricsSnapshot) say of its model and its use so far. */
export function readUsage(members: string): { readonly model: string; readonly amounts: UsageAmounts } {
  const parsed: unknown = JSON.parse(members)
  const { metrics, llm_model } = isRecord(parsed) ? parsed : {}
  const { accumulated_cost, accumulated_token_usage, model_name } = isRecord(metrics) ? metrics : {}
  const tokens = isRecord(accumulated_token_usage) ? accumulated_token_usage : {}
  const cost = typeof accumulated_cost === 'number' ? accumulated_cost * 1e6 : 0
  const amounts = usageAmounts.map((name) => [name, toAmount(name === 'cost' ? cost : tokens[name])])
  const model = [llm_model, model_name].find((name) => typeof name === 'string' && name !== '')
  return { model: String(model ?? 'unknown'), amounts: Object.fromEntries(amounts) }
}

/** The most of each: a row may be written with less than was counted before. */
export function mostUsage(one: UsageAmounts, other: UsageAmounts): UsageAmounts {
  const most = usageAmounts.map((name) => [name, Math.max(one[name], other[name])])
  return Object.fromEntries(most)
}

/** Undefined when nothing was used in between. */
export function usageBetween(before: UsageAmounts, after: UsageAmounts): UsageAmounts | undefined {
  const differences = usageAmounts.map((name) => [name, Math.max(0, after[name] - before[name])] as const)
  return differences.some(([, amount]) => amount > 0)
    ? (Object.fromEntries(differences) as UsageAmounts)
    : undefined
}

export function dayOf(instant: Instant): string {
  return formatInstant(instant).slice(0, 10)
}

/** The parts of a time on each UTC day. */
export function splitByDay(from: Instant, to: Instant): { readonly day: string; readonly micros: number }[] {
  const parts = []
  for (let start = from; start < to; ) {
    const end = Math.min(to, (Math.floor(start / dayMicros) + 1) * dayMicros)
    parts.push({ day: dayOf(start), micros: end - start })
    start = end
  }
  return parts
}

function toAmount(value: unknown): number {
  return typeof value === 'number' && value > 0 ? Math.round(Math.min(value, maxAmount)) : 0
}
