import type { ConfirmationPolicy, StuckThresholds } from '@slipway/protocol'
import type { Tool } from '../../tools/core/tool.ts'
import { mustAsk } from '../confirm/confirmation.ts'
import type { State } from '../state/state.ts'

/** What the loop does next. */
export type Move = 'ask' | 'act' | 'condense' | 'conclude' | 'stuck' | 'nudge' | 'limit' | 'think'

export interface Circumstances {
  readonly policy: ConfirmationPolicy
  readonly tools: ReadonlyMap<string, Tool>
  /** Undefined: loops are not looked for. */
  readonly thresholds: StuckThresholds | undefined
  /** Steps that this run may still take. */
  readonly stepsLeft: number
  readonly mustCondense: boolean
}

/**
 * The decision at the head of the loop, from the state alone: first every call gets its result, then what was said is
 * answered, and when nothing waits any more the run is over.
 */
export function nextMove(state: State, circumstances: Circumstances): Move {
  const pending = state.wanted()
  if (pending.length > 0) {
    const { policy, tools } = circumstances
    return mustAsk(policy, pending, { approvedBelow: state.approvedBelow, tools }) ? 'ask' : 'act'
  }
  if (!state.isAwaiting)
    return state.isCondensationRequested && circumstances.mustCondense ? 'condense' : 'conclude'
  const verdict =
    circumstances.thresholds === undefined ? 'no' : state.recent.verdict(circumstances.thresholds)
  if (verdict !== 'no') return verdict
  if (circumstances.stepsLeft <= 0) return 'limit'
  return circumstances.mustCondense ? 'condense' : 'think'
}
