import { randomUUID } from 'node:crypto'
import {
  type CommandRule,
  type ConfirmationPolicy,
  isRiskAtLeast,
  type SecurityAnalyzer,
  type SecurityRisk,
} from '@slipway/protocol'
import { asRecord } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import type { PermissionRequest } from '../../acp/session-messages.ts'
import { decideCommand } from '../../shell/command-rules.ts'
import { patternRisk, railRisk } from '../../shell/risk.ts'
import type { ServerPlace } from '../../shell/server-access.ts'
import { questionAction } from '../events/event-drafts.ts'

interface PermissionDecision {
  readonly decision: 'allow' | 'ask' | 'deny'
  readonly risk: SecurityRisk
}

interface PermissionOptions {
  readonly policy: ConfirmationPolicy
  readonly analyzer: SecurityAnalyzer | null
  readonly rules: readonly CommandRule[]
  readonly server: ServerPlace | undefined
}

/**
 * What becomes of a request of an external agent. Rules for commands decide first, then the policy. What is
 * not known to be harmless is asked for under every policy but NeverConfirm.
 */
export async function decidePermission(
  { toolCall }: PermissionRequest,
  { policy, analyzer, rules, server }: PermissionOptions,
): Promise<PermissionDecision> {
  const command = commandOf(toolCall)
  const risk = command === undefined ? 'UNKNOWN' : await commandRisk(analyzer, command, server)
  const rule = command === undefined ? undefined : await decideCommand(command, rules)
  if (rule !== undefined) return { decision: rule.decision, risk }
  if (policy.kind !== 'ConfirmRisky')
    return { decision: policy.kind === 'AlwaysConfirm' ? 'ask' : 'allow', risk }
  return { decision: risk === 'UNKNOWN' || isRiskAtLeast(risk, policy.threshold) ? 'ask' : 'allow', risk }
}

/** The command of a call, if it is one: a text, or the words of `sh -c`. */
function commandOf({ kind, rawInput }: Readonly<Record<string, unknown>>): string | undefined {
  const { command } = asRecord(rawInput)
  if (kind !== undefined && kind !== 'execute') return undefined
  if (typeof command === 'string') return command
  if (!Array.isArray(command) || command.length !== 3) return undefined
  const [shell, flag, script] = command
  return /^(?:.*\/)?(?:ba|z|da)?sh$/.test(String(shell)) &&
    /^-l?c$/.test(String(flag)) &&
    typeof script === 'string'
    ? script
    : undefined
}

async function commandRisk(
  analyzer: SecurityAnalyzer | null,
  command: string,
  server: ServerPlace | undefined,
): Promise<SecurityRisk> {
  switch (analyzer?.kind) {
    case 'PatternSecurityAnalyzer':
      return await patternRisk(command, server)
    case 'PolicyRailSecurityAnalyzer':
      return await railRisk(command, server)
    case 'EnsembleSecurityAnalyzer': {
      const risks = await Promise.all(analyzer.analyzers.map((one) => commandRisk(one, command, server)))
      // A model's own view of its risk is not known here, and does not count.
      const known = risks.filter((risk) => risk !== 'UNKNOWN')
      const isLost = known.length === 0 || (analyzer.propagate_unknown && known.length < risks.length)
      return isLost ? 'UNKNOWN' : known.reduce((worst, risk) => (isRiskAtLeast(risk, worst) ? risk : worst))
    }
    default:
      return 'UNKNOWN'
  }
}

const permissionTool = 'request_permission'

/** The request as an action that waits: what the program has said of the call. */
export function permissionEvent(
  { toolCall }: PermissionRequest,
  options: { readonly risk: SecurityRisk; readonly redact: (text: string) => string },
): EventDraft & { readonly id: string } {
  const { title, kind, rawInput, locations, content } = toolCall
  const data = Object.fromEntries(
    Object.entries({ title, kind, input: rawInput, locations, content }).filter(([, value]) => value != null),
  )
  const id = randomUUID()
  const call = String(toolCall.toolCallId ?? id)
  const summary = options.redact(`${commandOf(toolCall) ?? title ?? kind ?? 'a call'}`).replace(/\s+/g, ' ')
  return questionAction({
    ...{ id, tool: permissionTool, call: `permission-${call}`, data, risk: options.risk },
    summary: summary.length <= 200 ? summary : `${firstChars(summary, 197)}...`,
  })
}
