import { leafEventIdKey, Problem } from '@slipway/protocol'
import type { EventDraft, EventLog } from '@slipway/storage'
import { agentErrorEvent, stateUpdate, statusUpdate } from './events/event-drafts.ts'
import { endGoalEvents } from './loop/goal.ts'
import { leafMoveTarget } from './state/branch.ts'
import type { ConversationState } from './state/state.ts'
import { transition } from './state/status.ts'

const navigatedText = 'The call was not done: the conversation continued from another event.'
const otherBranchText = 'The call was not done here: it belongs to another branch of the conversation.'

/** Moves the leaf to an event, null for none; actions without a result on the old branch get an error. */
export function navigateEvents(now: ConversationState, value: string | null): EventDraft[] {
  const idle = transition(now.status, 'navigate')
  return [
    ...now.openActions().map((call) => agentErrorEvent(call, navigatedText)),
    ...endGoalEvents(now),
    ...(idle === undefined ? [] : [statusUpdate(idle)]),
    stateUpdate(leafEventIdKey, value),
  ]
}

/** Actions left on another branch get an error before this branch continues. */
export function closeAbandonedActions(now: ConversationState): EventDraft[] {
  return now.abandonedActions().map((call) => agentErrorEvent(call, otherBranchText))
}

/**
 * The event to navigate to; for a leaf move its target (null for the beginning). A Problem `not_found` when
 * there is no such event.
 */
export async function resolveNavigateTarget(
  log: EventLog,
  { id, eventId, now }: { readonly id: string; readonly eventId: string; readonly now: ConversationState },
): Promise<string | null> {
  const [event] = await log.get(id, [eventId])
  if (event === undefined) throw new Problem('not_found', `Unknown event_id: ${eventId}`)
  const target = leafMoveTarget(event, event.position + 1, now.leafMoves) ?? event.position
  if (target === event.position) return event.id
  return target === 0 ? null : ((await log.read(id, target - 1, 1))[0]?.id ?? event.id)
}
