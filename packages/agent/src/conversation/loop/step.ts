import type { ConfirmationPolicy, StuckThresholds } from '@slipway/protocol'
import type { Tool } from '../../tools/core/tool.ts'
import { type RuleDecisions, requiresConfirmation } from '../confirm/confirmation.ts'
import type { ConversationState } from '../state/state.ts'

export type Step =
  | 'ask'
  | 'act'
  | 'condense'
  | 'conclude'
  | 'stuck'
  | 'nudge'
  | 'silent'
  | 'limit'
  | 'think'
  | 'warn'
  | 'remind'
  | 'overLimit'
  | 'handOver'

export interface StepInput {
  readonly policy: ConfirmationPolicy
  readonly tools: ReadonlyMap<string, Tool>
  readonly rules?: RuleDecisions
  /** Ids of actions that plan mode refuses. */
  readonly refused?: ReadonlySet<string>
  /** Undefined: no stuck detection. */
  readonly thresholds: StuckThresholds | undefined
  readonly stepsLeft: number
  readonly mustCondense: boolean
  /** There is something to tell the agent. */
  readonly mustRemind?: boolean
  /** A limit of the settings that is near or reached; `time` also ends calls that are open. */
  readonly limit?: 'near' | 'reached' | 'time' | undefined
  /** The client has a call to answer. */
  readonly isClientsTurn?: boolean
}

/**
 * The next step by the state alone: every call gets its result, then the model answers, then the run is over.
 */
export function nextStep(state: ConversationState, input: StepInput): Step {
  const pending = state.openActions()
  if (input.limit === 'time' && (pending.length > 0 || state.isAwaiting)) return 'overLimit'
  if (pending.length > 0) {
    const { policy, tools, rules, refused } = input
    const { approvedBelow } = state
    return requiresConfirmation(policy, pending, { approvedBelow, tools, rules, refused }) ? 'ask' : 'act'
  }
  if (!state.isAwaiting) return state.isCondensationRequested && input.mustCondense ? 'condense' : 'conclude'
  if (input.isClientsTurn) return 'handOver'
  const verdict = input.thresholds === undefined ? 'no' : state.stuckDetector.detect(input.thresholds)
  if (verdict !== 'no') return verdict
  if (input.stepsLeft <= 0) return 'limit'
  if (input.limit === 'reached') return 'overLimit'
  if (input.limit === 'near') return 'warn'
  if (input.mustRemind) return 'remind'
  return input.mustCondense ? 'condense' : 'think'
}
