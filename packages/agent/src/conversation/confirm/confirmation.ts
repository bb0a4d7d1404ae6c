import {
  type Action,
  type CommandRule,
  type ConfirmationPolicy,
  compareRisk,
  isRiskAtLeast,
  type SecurityAnalyzer,
  type SecurityRisk,
} from '@slipway/protocol'
import { editsAgentConfiguration } from '../../shell/agent-configuration.ts'
import { decideCommand } from '../../shell/command-rules.ts'
import { patternRisk, railRisk } from '../../shell/risk.ts'
import type { ServerPlace } from '../../shell/server-access.ts'
import { isReadOnly } from '../../tools/calls/parse-call.ts'
import type { Tool } from '../../tools/core/tool.ts'
import type { PendingAction } from '../state/state.ts'

interface RiskInput {
  readonly tool: Tool
  readonly action: Action
  readonly predictedRisk: SecurityRisk
  /** The analysis of this answer has taken all that it may: a command is HIGH without one. */
  readonly isOverBudget?: boolean
  readonly server?: ServerPlace | undefined
}

/** The risk of an action for its event, from which later decisions follow; UNKNOWN without an analyzer. */
export async function assess(
  analyzer: SecurityAnalyzer | null | undefined,
  call: RiskInput,
): Promise<SecurityRisk> {
  if (analyzer === null || analyzer === undefined) return 'UNKNOWN'
  const { action, server } = call
  const command = shellCommand(action)
  const isUnread = call.isOverBudget === true && command !== undefined
  switch (analyzer.kind) {
    case 'LLMSecurityAnalyzer':
      return isReadOnly(call.tool) ? 'UNKNOWN' : call.predictedRisk
    case 'PatternSecurityAnalyzer':
      if (isUnread || editsAgentConfiguration(action, server?.workspace)) return 'HIGH'
      return command === undefined ? riskFromAnnotations(call.tool) : await patternRisk(command, server)
    case 'PolicyRailSecurityAnalyzer':
      if (isUnread || editsAgentConfiguration(action, server?.workspace)) return 'HIGH'
      return command === undefined ? 'LOW' : await railRisk(command, server)
    case 'EnsembleSecurityAnalyzer': {
      const risks = await Promise.all(analyzer.analyzers.map((one) => assess(one, call)))
      if (analyzer.propagate_unknown && risks.includes('UNKNOWN')) return 'UNKNOWN'
      return risks.reduce((worst, risk) => (compareRisk(risk, worst) > 0 ? risk : worst))
    }
  }
}

/** Whether an analyzer reads the risk that the model gives. Only then it is asked for one. */
export function readsModelRisk(analyzer: SecurityAnalyzer | null | undefined): boolean {
  if (analyzer?.kind === 'EnsembleSecurityAnalyzer') return analyzer.analyzers.some(readsModelRisk)
  return analyzer?.kind === 'LLMSecurityAnalyzer'
}

/** What an action gives to a shell, or types into a program of one; undefined for other actions. */
export function shellCommand(action: Action): string | undefined {
  // The second kind is in no union.
  const { kind, command }: { readonly kind: string; readonly command?: unknown } = action
  if (kind !== 'TerminalAction' && kind !== 'BackgroundTerminalAction') return undefined
  return typeof command === 'string' ? command : ''
}

function riskFromAnnotations({ definition: { annotations } }: Tool): SecurityRisk {
  if (annotations?.readOnlyHint) return 'LOW'
  return annotations?.openWorldHint === false ? 'LOW' : 'MEDIUM'
}

/** What rules say about pending actions, by the ids of their events. */
export type RuleDecisions = ReadonlyMap<string, CommandRule>

/**
 * The rules that decide about pending commands. What is typed into a running program is never allowed by one,
 * and what asks to leave the sandbox is never allowed by one either: the user decides.
 */
export async function decideCommands(
  pending: readonly PendingAction[],
  { rules, hasSandbox }: { readonly rules: readonly CommandRule[]; readonly hasSandbox: boolean },
): Promise<RuleDecisions> {
  const decisions = new Map<string, CommandRule>()
  for (const { id, action, asksForOutside } of pending) {
    if (action?.kind !== 'TerminalAction') continue
    const rule = await decideCommand(action.command, rules)
    if (hasSandbox && asksForOutside && rule?.decision !== 'deny') {
      decisions.set(id, { pattern: action.command, decision: 'ask' })
      continue
    }
    if (rule !== undefined && !(action.is_input && rule.decision === 'allow')) decisions.set(id, rule)
  }
  return decisions
}

/**
 * Whether any pending action needs confirmation. Rules for commands decide first: denied actions end without
 * one. Approved actions and a single finish or think need none. A
 * tool that only reads counts as LOW when its risk is UNKNOWN.
 */
export function requiresConfirmation(
  policy: ConfirmationPolicy,
  pending: readonly PendingAction[],
  options: {
    readonly approvedBelow: number
    readonly tools: ReadonlyMap<string, Tool>
    readonly rules?: RuleDecisions | undefined
    /** Ids of actions that are refused without a question. */
    readonly refused?: ReadonlySet<string> | undefined
  },
): boolean {
  const open = pending.filter(
    ({ id, position, action }) =>
      position >= options.approvedBelow && action !== null && !options.refused?.has(id),
  )
  if (open.length === 1 && /^(Finish|Think)Action$/.test(open[0]?.action?.kind ?? '')) return false
  return open.some(({ id, security_risk, tool_name }) => {
    const decision = options.rules?.get(id)?.decision
    if (decision !== undefined) return decision === 'ask'
    if (policy.kind !== 'ConfirmRisky') return policy.kind === 'AlwaysConfirm'
    const tool = options.tools.get(tool_name)
    const isKnownToRead = security_risk === 'UNKNOWN' && tool !== undefined && isReadOnly(tool)
    const risk = isKnownToRead ? 'LOW' : security_risk
    return risk === 'UNKNOWN' ? policy.confirm_unknown : isRiskAtLeast(risk, policy.threshold)
  })
}
