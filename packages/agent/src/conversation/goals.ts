import { Problem } from '@slipway/protocol'
import type { ConversationParts } from './conversation-parts.ts'
import { statusUpdate } from './events/event-drafts.ts'
import { assertCanStartGoal, endGoalEvents, goalReminder, goalUpdateEvent } from './loop/goal.ts'
import { closeAbandonedActions } from './navigate.ts'
import { transition } from './state/status.ts'
import { pauseEvent } from './stop-events.ts'

/** Ends the goal and pauses its run. */
export async function stopGoal({ context, runtimes }: ConversationParts): Promise<void> {
  await context.append((now) => {
    if (!now.goal?.active) return []
    const paused = now.status === 'running' ? [statusUpdate('paused'), pauseEvent] : []
    return [...endGoalEvents(now), ...paused]
  })
  if (context.state.status === 'paused') await runtimes.tasks?.pause()
  context.publish({ kind: 'idle' })
}

export async function resumeGoal({ context, runs }: ConversationParts): Promise<void> {
  await runs.startWith(runs.reserveSlot(), () =>
    context.append((now) => {
      assertCanStartGoal(now)
      const { goal } = now
      if (goal?.status !== 'interrupted')
        throw new Problem('bad_request', 'There is no goal that was interrupted.')
      transition(now.status, 'run')
      const isWaiting = now.isAwaiting || now.openActions().length > 0
      return [
        ...closeAbandonedActions(now),
        goalUpdateEvent({ ...goal, active: true, status: 'running' }),
        ...(isWaiting ? [] : [goalReminder(goal)]),
        statusUpdate('running'),
      ]
    }),
  )
}
