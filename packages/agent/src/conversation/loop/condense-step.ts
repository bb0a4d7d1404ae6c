import type { EventDraft } from '@slipway/storage'
import { countToolTokens } from '../../llm/tokens.ts'
import { condense, condenserFor, fitsInPlace, tokenLimit } from '../condense/condense.ts'
import { planPruning } from '../condense/prune.ts'
import { failureEvents, recordEvents, stateUpdate } from '../events/event-drafts.ts'
import { instrument } from '../runtime/instrumentation.ts'
import type { ConversationState } from '../state/state.ts'
import { prunedResultsKey } from '../view/prune-result.ts'
import { nextRequest, type StepScope } from './run-progress.ts'

export type CondenseStepResult =
  | { readonly kind: 'done' }
  | { readonly kind: 'failed'; readonly detail: string }

/**
 * Condenses the view: shortens old results of tools when that is enough, else by a summary. A failure ends
 * the run when the run depends on it.
 */
export async function condenseStep(
  { context, runtime, progress }: StepScope,
  signal: AbortSignal,
): Promise<CondenseStepResult> {
  const { stats, deps } = context
  const condenser = condenserFor(runtime.settings.agent.condenser, runtime.model)
  if (condenser === undefined) return { kind: 'failed', detail: 'There is no condenser.' }
  const { state } = context
  const { view } = state
  const isHard = progress.condenseNeed(state, runtime) === 'hard'
  const model = condenser.llm === undefined ? runtime.model : runtime.openModel(condenser.llm)
  const scale = progress.sizes.scaleOf(runtime.model)
  const limit = tokenLimit(condenser, runtime.model)
  if (isHard && !state.isCondensationRequested && limit !== undefined) {
    const pruned = planPruning(view, limit / scale, runtime.model)
    if (pruned.length > 0) {
      await context.appendWithUsage((now) =>
        signal.aborted || now.status !== 'running' ? [] : [stateUpdate(prunedResultsKey, [...pruned])],
      )
      return { kind: 'done' }
    }
  }
  const request = condenser.llm === undefined ? nextRequest(state, runtime) : undefined
  const isInPlace =
    request !== undefined &&
    progress.overflow === undefined &&
    fitsInPlace(progress.sizes.sizeOf(model, request), model)
  const options = {
    ...{ view, condenser, model, reader: runtime.model, scale, goal: state.goal },
    toolTokens: countToolTokens(runtime.modelTools),
    request: isInPlace ? request : undefined,
  }
  const work = () => condense({ ...options, isHard: isHard || state.isCondensationRequested }, signal)
  const result = await instrument(deps.monitor, { kind: 'condensation' }, work, ({ kind }) => ({
    outcome: kind === 'condensation' ? 'ok' : kind,
    isFailure: kind === 'failure',
  }))
  if (result.kind === 'aborted') return { kind: 'failed', detail: 'It was interrupted.' }
  // A condenser that shares the agent's model is counted under its own usage id.
  const { usage_id } = model.llm
  const usageId = usage_id === runtime.model.llm.usage_id ? 'condenser' : usage_id
  for (const reply of result.replies) stats.addReply(reply, usageId, deps.clock.now() * 1000)
  const usage = result.replies.length > 0 ? context.usageEvents() : []
  const records = [...result.replies.flatMap((reply) => recordEvents(reply, usageId)), ...usage]
  if (result.kind === 'condensation') {
    await context.appendWithUsage((now) =>
      signal.aborted ? [] : [...records, ...dropIfStale(now, result.draft)],
    )
    return { kind: 'done' }
  }
  if (!isHard) progress.failedCondenseSize = view.size
  const refusal = progress.overflow === undefined ? '' : ` The model's server said: ${progress.overflow}`
  const events = isHard ? failureEvents(result.code, result.detail + refusal) : []
  await context.appendWithUsage((now) => [...records, ...(now.status === 'running' ? events : [])])
  return { kind: 'failed', detail: result.detail }
}

/** A condensation is valid only while everything that it forgets is still in the view. */
function dropIfStale(now: ConversationState, draft: EventDraft): readonly EventDraft[] {
  const ids = draft.forgotten_event_ids
  return Array.isArray(ids) && ids.every((id) => now.view.has(String(id))) ? [draft] : []
}
