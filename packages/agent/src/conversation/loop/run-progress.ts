import { condenseNeed, condenserFor } from '../condense/condense.ts'
import { RequestSizes } from '../condense/request-size.ts'
import type { AgentRuntime } from '../runtime/agent-runtime.ts'
import type { ConversationContext } from '../runtime/conversation-context.ts'
import type { ConversationState } from '../state/state.ts'
import { messageLimits } from '../view/message-limits.ts'

const start = {
  steps: 0,
  refusals: 0,
  mismatches: 0,
  refinements: 0,
  failedCondenseSize: 0,
  overflow: undefined,
}

export class RunProgress {
  steps = start.steps
  /** Refused replies in a row. */
  refusals = start.refusals
  /** Final answers in a row that did not fit the schema. */
  mismatches = start.mismatches
  /** Refinements that the critic requested. */
  refinements = start.refinements
  /** Size of the view when a soft condensation failed: it is tried again only for a larger view. */
  failedCondenseSize = start.failedCondenseSize
  /** Why the prompt was too large for the model, so that the view must be condensed. */
  overflow: string | undefined = start.overflow
  /** Kept from run to run. */
  readonly sizes = new RequestSizes()

  /** A new run begins, possibly before the last step of the previous run ends. */
  reset(): void {
    Object.assign(this, start)
  }

  /** `soft`: the run continues when condensing fails. */
  condenseNeed(state: ConversationState, runtime: AgentRuntime): 'no' | 'soft' | 'hard' {
    const { model } = runtime
    const condenser = condenserFor(runtime.settings.agent.condenser, model)
    if (condenser === undefined) return 'no'
    const need = condenseNeed({
      view: state.view,
      condenser,
      model,
      requestTokens: this.sizes.sizeOf(model, nextRequest(state, runtime)),
      isRequested: this.overflow !== undefined && state.isCondensationRequested,
    })
    if (need === 'hard') return 'hard'
    const isDesirable = need === 'soft' || state.isCondensationRequested
    return isDesirable && state.view.size > this.failedCondenseSize ? 'soft' : 'no'
  }
}

/** What the model of a runtime is sent next. */
export function nextRequest({ view }: ConversationState, { model, modelTools: tools }: AgentRuntime) {
  return { messages: view.messages(messageLimits(model)), tools }
}

export interface StepScope {
  readonly context: ConversationContext
  readonly runtime: AgentRuntime
  readonly progress: RunProgress
}
