import type { ConfirmationPolicy, StuckThresholds } from '@slipway/protocol'
import type { Tool } from '../../tools/core/tool.ts'
import { requiresConfirmation } from '../confirm/confirmation.ts'
import type { ConversationState } from '../state/state.ts'

export type Step = 'ask' | 'act' | 'condense' | 'conclude' | 'stuck' | 'nudge' | 'limit' | 'think'

export interface StepInput {
  readonly policy: ConfirmationPolicy
  readonly tools: ReadonlyMap<string, Tool>
  /** Undefined: no stuck detection. */
  readonly thresholds: StuckThresholds | undefined
  readonly stepsLeft: number
  readonly mustCondense: boolean
}

/**
 * The next step by the state alone: every call gets its result, then the model answers, then the run is over.
 */
export function nextStep(state: ConversationState, input: StepInput): Step {
  const pending = state.openActions()
  if (pending.length > 0) {
    const { policy, tools } = input
    return requiresConfirmation(policy, pending, { approvedBelow: state.approvedBelow, tools })
      ? 'ask'
      : 'act'
  }
  if (!state.isAwaiting) return state.isCondensationRequested && input.mustCondense ? 'condense' : 'conclude'
  const verdict = input.thresholds === undefined ? 'no' : state.stuckDetector.detect(input.thresholds)
  if (verdict !== 'no') return verdict
  if (input.stepsLeft <= 0) return 'limit'
  return input.mustCondense ? 'condense' : 'think'
}
