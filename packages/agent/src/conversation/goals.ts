import { Problem } from '@slipway/protocol'
import { statusUpdate } from './events/event-drafts.ts'
import { assertCanStartGoal, endGoalEvents, goalReminder, goalUpdateEvent, newGoal } from './loop/goal.ts'
import type { Messages } from './messages.ts'
import { closeAbandonedActions, pauseEvent } from './navigate.ts'
import type { RunControl } from './run-control.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import { transition } from './state/status.ts'
import { textRequest } from './user-message.ts'

interface GoalParts {
  readonly context: ConversationContext
  readonly runtimes: RuntimeLoader
  readonly runs: RunControl
  readonly messages: Messages
}

/** Starts and ends the pursuit of a goal; the agent loop judges each round of it. */
export class Goals {
  readonly #parts: GoalParts

  constructor(parts: GoalParts) {
    this.#parts = parts
  }

  async start(objective: string, maxIterations: number): Promise<void> {
    const goal = newGoal(objective, maxIterations)
    await this.#parts.messages.send(textRequest(objective, { run: true }), { goal })
  }

  async stop(): Promise<void> {
    await this.#parts.context.append((now) => {
      if (!now.goal?.active) return []
      const paused = now.status === 'running' ? [statusUpdate('paused'), pauseEvent] : []
      return [...endGoalEvents(now), ...paused]
    })
    if (this.#parts.context.state.status === 'paused') await this.#parts.runtimes.tasks?.pause()
    this.#parts.context.publish({ kind: 'idle' })
  }

  async resume(): Promise<void> {
    await this.#parts.context.append((now) => {
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
    })
    this.#parts.runs.start()
  }
}
