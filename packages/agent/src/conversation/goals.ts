import { Problem } from '@slipway/protocol'
import type { ConversationParts } from './conversation-parts.ts'
import { statusUpdate } from './events/event-drafts.ts'
import { assertCanStartGoal, endGoalEvents, goalReminder, goalUpdateEvent } from './loop/goal.ts'
import { closeAbandonedActions } from './navigate.ts'
import { transition } from './state/status.ts'

/** Ends the goal; the round under way continues to its end. */
export async function stopGoal({ context }: ConversationParts): Promise<void> {
  await context.append(endGoalEvents)
}

export async function resumeGoal({ context, runs }: ConversationParts): Promise<void> {
  await runs.startWith(runs.reserveSlot(), () =>
    context.append((now) => {
      assertCanStartGoal(now)
      const { goal } = now
      if (goal?.status !== 'interrupted') throw new Problem('bad_request', 'no_resumable_goal')
      transition(now.status, 'run')
      return [
        ...closeAbandonedActions(now),
        goalUpdateEvent({ ...goal, active: true, status: 'running' }),
        // Open calls get their results first.
        ...(now.openActions().length > 0 ? [] : [goalReminder()]),
        statusUpdate('running'),
      ]
    }),
  )
}
