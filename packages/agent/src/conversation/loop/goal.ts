import { type GoalState, type GoalVerdict, Problem } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { stateUpdate, userMessage } from '../events/event-drafts.ts'
import type { ConversationState } from '../state/state.ts'

/** A Problem `conflict` during a run or while a goal is active. */
export function assertCanStartGoal({ status, goal }: ConversationState): void {
  if (status === 'running' || goal?.active)
    throw new Problem('conflict', 'Conversation run or goal loop already running.')
}

/** A Problem `bad_request` for an objective of blanks. */
export function newGoal(objective: string, max_iterations: number): GoalState {
  if (objective.trim() === '') throw new Problem('bad_request', 'Goal objective must not be empty.')
  return { active: true, status: 'running', iteration: 0, max_iterations, objective, verdict: null }
}

export function goalUpdateEvent(goal: GoalState): EventDraft {
  return stateUpdate('goal', goal)
}

/** Interrupts the active goal, if any. */
export function endGoalEvents({ goal }: ConversationState): EventDraft[] {
  return goal?.active ? [goalUpdateEvent({ ...goal, active: false, status: 'interrupted' })] : []
}

/** The end of a round: the goal is over, or the agent gets a message with what is missing. */
export function goalRoundEvents(goal: GoalState, verdict: GoalVerdict): readonly EventDraft[] {
  const round = { ...goal, iteration: goal.iteration + 1, verdict }
  if (verdict.complete) return [goalUpdateEvent({ ...round, active: false, status: 'complete' })]
  if (round.iteration >= goal.max_iterations)
    return [goalUpdateEvent({ ...round, active: false, status: 'capped' })]
  const missing = verdict.missing === '' ? 'Check the result against the goal.' : verdict.missing
  const found = `The goal is not reached yet, says audit iteration ${round.iteration}. What is missing:`
  return [goalUpdateEvent(round), userMessage('user', `${found}\n\n${missing}\n\nGo on until it is.`)]
}

/** The message for a resumed goal. */
export function goalReminder(): EventDraft {
  return userMessage('user', 'Resuming a goal that was paused or interrupted. Continue until it is reached.')
}
