import type { ExecutionStatus } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { isServerQuestion } from './confirm/server-questions.ts'
import {
  agentErrorEvent,
  endedExternalCalls,
  failureEvents,
  rejectionEvent,
  stateUpdate,
  statusUpdate,
} from './events/event-drafts.ts'
import { endGoalEvents } from './loop/goal.ts'
import type { CutRun } from './runtime/conversation-context.ts'
import { type ConversationState, runRecoveryKey } from './state/state.ts'

export const restartedText =
  'The call was interrupted by a restart before it had a result. It may have been done in part.'

const pausedText =
  'The run was paused, and its conversation was closed before this call had a result. It may have been done in part.'

export const pauseEvent: EventDraft = { kind: 'PauseEvent', source: 'user' }
export const interruptEvent: EventDraft = { kind: 'InterruptEvent', source: 'user' }

const begunText = 'The user has rejected the call after it had begun. It may have been done in part.'

/** The status without regard to a question of a server: the step that asks has not ended. */
export function stepStatus(now: ConversationState): ExecutionStatus {
  const isAsking = now.status === 'waiting_for_confirmation' && now.openActions().some(isServerQuestion)
  return isAsking ? 'running' : now.status
}

/** The ends of open calls that the user rejects. Those before a question of a server have begun. */
export function rejectOpenCalls(now: ConversationState, reason: string): EventDraft[] {
  const open = now.openActions()
  const asked = open.find(isServerQuestion)?.position ?? 0
  return open.map((call) =>
    call.position < asked ? agentErrorEvent(call, begunText) : rejectionEvent(call, reason),
  )
}

/** An error for each tool call that is unanswered, so that it has exactly one result. */
function callErrors(now: ConversationState, reason: string): EventDraft[] {
  const errors = now.openActions().map((call) => agentErrorEvent(call, reason))
  return [...endedExternalCalls(now, 'failed'), ...errors]
}

/** Ends the run, on a pause and after a crash. */
export function stopEvents(now: ConversationState, reason: string): EventDraft[] {
  return [...callErrors(now, reason), ...endGoalEvents(now), statusUpdate('paused')]
}

/**
 * What a conversation that is opened again gets first. A pause lets the current calls continue, so when the
 * process died after it no one knows whether they were done: they are not done a second time.
 */
export function reopenEvents(now: ConversationState, cutRun: CutRun): EventDraft[] {
  if (now.status === 'running') return cutRunEvents(now, cutRun)
  const isWaiting = now.status === 'waiting_for_confirmation'
  // The call that asks the user has ended with its process.
  if (isWaiting && now.openActions().some(isServerQuestion)) return stopEvents(now, restartedText)
  const calls = isWaiting ? endedExternalCalls(now, 'failed') : callErrors(now, pausedText)
  return [...calls, ...endGoalEvents(now)]
}

/** See `CutRun`. */
function cutRunEvents(now: ConversationState, cutRun: CutRun): EventDraft[] {
  if (cutRun === 'paused') return stopEvents(now, restartedText)
  const errors = callErrors(now, restartedText)
  if (cutRun === 'continued') return errors
  const recoveries = now.recoveries ?? 0
  if (recoveries < cutRun.maxRecoveries) return [...errors, stateUpdate(runRecoveryKey, recoveries + 1)]
  const detail =
    recoveries === 0
      ? 'The server ended during the run. Run it again to continue.'
      : `The server ended ${recoveries + 1} times during the run. Run it again to continue.`
  return [...errors, ...endGoalEvents(now), ...failureEvents('RunCutByRestart', detail)]
}
