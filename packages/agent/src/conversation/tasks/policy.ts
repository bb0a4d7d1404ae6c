import {
  type AgentDefinition,
  type ConfirmationPolicy,
  isRiskAtLeast,
  type SecurityAnalyzer,
} from '@slipway/protocol'

const alwaysConfirm: ConfirmationPolicy = { kind: 'AlwaysConfirm', deadline_seconds: undefined }
const confirmRisky: ConfirmationPolicy = {
  kind: 'ConfirmRisky',
  threshold: 'HIGH',
  confirm_unknown: true,
  deadline_seconds: undefined,
}

/** The policy that asks whenever one of two policies asks. The earlier deadline counts. */
export function stricterPolicy(a: ConfirmationPolicy, b: ConfirmationPolicy): ConfirmationPolicy {
  if (a.kind === 'NeverConfirm') return b
  if (b.kind === 'NeverConfirm') return a
  const deadline_seconds = earlier(a.deadline_seconds, b.deadline_seconds)
  if (a.kind === 'AlwaysConfirm' || b.kind === 'AlwaysConfirm')
    return { kind: 'AlwaysConfirm', deadline_seconds }
  return {
    kind: 'ConfirmRisky',
    threshold: isRiskAtLeast(a.threshold, b.threshold) ? b.threshold : a.threshold,
    confirm_unknown: a.confirm_unknown || b.confirm_unknown,
    deadline_seconds,
  }
}

function earlier(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? (a ?? b) : Math.min(a, b)
}

/**
 * The confirmation policy of a task: at least the parent's, `permission_mode` only adds confirmation. An
 * agent that asks about risky actions needs an analyzer: without confirmation otherwise, that is the model.
 */
export function taskPolicy(
  parent: { readonly policy: ConfirmationPolicy; readonly analyzer: SecurityAnalyzer | null },
  mode: AgentDefinition['permission_mode'],
): { readonly policy: ConfirmationPolicy; readonly analyzer: SecurityAnalyzer | null } {
  const { policy, analyzer } = parent
  if (mode === 'always_confirm') return { policy: stricterPolicy(policy, alwaysConfirm), analyzer }
  if (mode !== 'confirm_risky') return { policy, analyzer }
  const isFree = policy.kind === 'NeverConfirm' && analyzer === null
  return {
    policy: stricterPolicy(policy, confirmRisky),
    analyzer: isFree ? { kind: 'LLMSecurityAnalyzer' } : analyzer,
  }
}
