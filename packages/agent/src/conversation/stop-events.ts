import type { EventDraft } from '@slipway/storage'
import { agentErrorEvent, statusUpdate } from './events/event-drafts.ts'
import { endGoalEvents } from './loop/goal.ts'
import type { ConversationState } from './state/state.ts'

export const restartedText =
  'The call was interrupted by a restart before it had a result. It may have been done in part.'

export const pauseEvent: EventDraft = { kind: 'PauseEvent', source: 'user' }
export const interruptEvent: EventDraft = { kind: 'InterruptEvent', source: 'user' }

/** An error for each tool call that is unanswered, so that it has exactly one result. */
export function callErrors(now: ConversationState, reason: string): EventDraft[] {
  return now.openActions().map((call) => agentErrorEvent(call, reason))
}

/** Ends the run, on a pause and after a crash. */
export function stopEvents(now: ConversationState, reason: string): EventDraft[] {
  return [...callErrors(now, reason), ...endGoalEvents(now), statusUpdate('paused')]
}
