import { type GoalState, type GoalVerdict, Problem } from '@slipway/protocol'
import type { EventDraft } from '@slipway/storage'
import { stateUpdate, userMessage } from '../events/event-drafts.ts'
import type { ConversationState } from '../state/state.ts'

/** A Problem `conflict` during a run or while a goal is active. */
export function assertCanStartGoal({ status, goal }: ConversationState): void {
  if (status === 'running') throw new Problem('conflict', 'The conversation is running.')
  if (goal?.active) throw new Problem('conflict', 'The conversation pursues a goal already.')
}

export function newGoal(objective: string, max_iterations: number): GoalState {
  return { active: true, status: 'running', iteration: 1, max_iterations, objective, verdict: null }
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
  if (verdict.complete) return [goalUpdateEvent({ ...goal, active: false, status: 'complete', verdict })]
  if (goal.iteration >= goal.max_iterations)
    return [goalUpdateEvent({ ...goal, active: false, status: 'capped', verdict })]
  const missing = verdict.missing === '' ? 'Check the result against the goal.' : verdict.missing
  return [
    goalUpdateEvent({ ...goal, iteration: goal.iteration + 1, verdict }),
    userMessage('user', `The goal is not reached yet. What is missing:\n\n${missing}\n\nGo on until it is.`),
  ]
}

/** The message for a resumed goal when no other message waits. */
export function goalReminder({ objective }: GoalState): EventDraft {
  return userMessage('user', `Go on until this goal is reached:\n\n${objective}`)
}
