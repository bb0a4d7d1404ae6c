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

/**
 * The policy that asks wherever one of two asks. Of two deadlines the earlier counts: what nobody agrees to in time is
 * rejected.
 */
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
 * When an agent that was given a task asks before it acts. What would wait for the user in the conversation that gives the
 * task waits in that of the task too, whatever a definition says: it is answered there, and the task waits meanwhile. So
 * `permission_mode` can add confirmation and never take it away. An agent that asks about risky actions needs somebody who
 * judges risks: where nothing is confirmed otherwise, that is the model.
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
