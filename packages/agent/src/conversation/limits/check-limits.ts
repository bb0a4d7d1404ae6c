import type { ConversationLimits, LimitName, LimitScope, UsageLimits } from '@slipway/protocol'
import type { UsageStats } from '../state/usage-stats.ts'

export interface LimitFinding {
  readonly kind: 'near' | 'reached'
  readonly scope: LimitScope
  readonly limit: LimitName
  readonly used: number
  readonly max: number
}

/** The share of a limit from which on it is reported. */
const nearShare = 0.8
/** The smallest limits. */
export const smallestCost = 0.001
export const smallestCount = 1
const scopes = ['run', 'conversation'] as const
/** Time first: it ends a step that is under way. */
const names = ['seconds', 'cost', 'tokens', 'steps'] as const

export const limitCodes: Readonly<Record<LimitName, string>> = {
  cost: 'MaxCostReached',
  tokens: 'MaxTokensReached',
  steps: 'MaxStepsReached',
  seconds: 'MaxTimeReached',
}

/** The limit that is reached, or else one that is near and was not told yet. */
export function checkLimits(
  limits: ConversationLimits | undefined,
  stats: UsageStats,
): LimitFinding | undefined {
  let near: LimitFinding | undefined
  for (const scope of scopes) {
    const own = limits?.[scope]
    if (own === undefined) continue
    const amounts = stats.used(scope)
    for (const limit of names) {
      const max = own[limit]
      if (max === undefined) continue
      const finding = { scope, limit, used: amounts[limit], max }
      if (finding.used >= max) return { kind: 'reached', ...finding }
      if (finding.used < max * nearShare || stats.limits.hasWarned(warningKey(finding))) continue
      near ??= { kind: 'near', ...finding }
    }
  }
  return near
}

/** A higher limit is reported again. */
export function warningKey({ scope, limit, max }: Omit<LimitFinding, 'kind'>): string {
  return `${scope}.${limit}=${max}`
}

/** How long a step may take; undefined without a limit of time. */
export function secondsLeft(limits: ConversationLimits | undefined, stats: UsageStats): number | undefined {
  return remainingLimits(limits, stats)?.seconds
}

/** What is left of both scopes together, at least the smallest limit; undefined without limits. */
export function remainingLimits(
  limits: ConversationLimits | undefined,
  stats: UsageStats,
): UsageLimits | undefined {
  if (limits?.run === undefined && limits?.conversation === undefined) return undefined
  const remaining = (limit: LimitName): number | undefined => {
    const rests = scopes.flatMap((scope) => {
      const max = limits[scope]?.[limit]
      return max === undefined ? [] : [max - stats.used(scope)[limit]]
    })
    const smallest = limit === 'tokens' || limit === 'steps' ? smallestCount : smallestCost
    return rests.length === 0 ? undefined : Math.max(Math.min(...rests), smallest)
  }
  return {
    cost: remaining('cost'),
    tokens: remaining('tokens'),
    steps: remaining('steps'),
    seconds: remaining('seconds'),
  }
}

export function nearText(finding: LimitFinding): string {
  return `Note: ${describeUse(finding)} is used. The run stops when the limit is reached. Do what matters most first, leave the files in a consistent state, and say what remains.`
}

export function reachedText(finding: LimitFinding): string {
  const next =
    finding.scope === 'run'
      ? 'Run again to continue with a new run, or raise the limit first.'
      : 'Raise the limit of the conversation, then run again.'
  return `The limit was reached: ${describeUse(finding)} is used. ${next}`
}

function describeUse({ scope, limit, used, max }: LimitFinding): string {
  const place = scope === 'run' ? 'this run' : 'this conversation'
  const noun = limit === 'seconds' ? 'time' : limit
  return `${format(limit, used)} of the ${noun} limit of ${place} (${format(limit, max)})`
}

function format(limit: LimitName, value: number): string {
  if (limit === 'cost') return `$${Number(value.toFixed(4))}`
  if (limit === 'seconds') return `${Math.round(value)} s`
  return `${Math.round(value)} ${limit}`
}
