import { randomUUID } from 'node:crypto'
import type { GoalState, SendMessageRequest } from '@slipway/protocol'
import { rejectionEvent, stateUpdate, statusUpdate } from './events/event-drafts.ts'
import { assertCanStartGoal, endGoalEvents, goalUpdateEvent } from './loop/goal.ts'
import { closeAbandonedActions } from './navigate.ts'
import type { RunControl } from './run-control.ts'
import type { ConversationContext } from './runtime/conversation-context.ts'
import type { RuntimeLoader } from './runtime/runtime-loader.ts'
import type { ConversationState, PendingAction } from './state/state.ts'
import { transition } from './state/status.ts'
import type { Titles } from './titles.ts'
import { assertSameMessage, messageText, userMessageEvent } from './user-message.ts'

const supersededText = 'Superseded by a new user message'

interface MessageParts {
  readonly context: ConversationContext
  readonly runtimes: RuntimeLoader
  readonly runs: RunControl
  readonly titles: Titles
}

/** Stores user messages. */
export class Messages {
  readonly #parts: MessageParts

  constructor(parts: MessageParts) {
    this.#parts = parts
  }

  /** With a `goal` the message is its objective; any other message ends the current goal. */
  async send(
    message: SendMessageRequest,
    options: { readonly id?: string | undefined; readonly goal?: GoalState } = {},
  ): Promise<void> {
    const { runs, titles } = this.#parts
    const isNew = await this.#store(message, options)
    if (isNew) titles.setInBackground(this.#parts.context.secrets.redact(messageText(message)))
    if (!message.run) return
    const { status } = this.#parts.context.state
    if (!isNew && status === 'idle') await runs.ensureRunning()
    else if (status === 'running') runs.start()
  }

  /** False when the message was stored before. */
  async #store(
    message: SendMessageRequest,
    { id: requestedId, goal }: { readonly id?: string | undefined; readonly goal?: GoalState },
  ): Promise<boolean> {
    const { id: conversation, deps, settings, secrets, closing, append } = this.#parts.context
    const { runtimes } = this.#parts
    const runtime = await runtimes.open().catch(() => undefined)
    // A run reports missing plugins.
    await runtime?.loadMissingPlugins(closing.signal).catch(() => undefined)
    const id = requestedId ?? randomUUID()
    const findStored = async () =>
      requestedId === undefined ? undefined : (await deps.log.get(conversation, [requestedId]))[0]
    const verdict =
      (await findStored()) === undefined
        ? await runtime?.hooks.run(
            'user_prompt_submit',
            { message: messageText(message), message_id: id },
            closing.signal,
          )
        : undefined
    let isNew = true
    await append(async (now) => {
      const stored = await findStored()
      if (goal !== undefined) assertCanStartGoal(now)
      const draft = userMessageEvent(message, {
        id,
        skills: runtime?.skills,
        activatedSkills: now.activatedSkills,
        agentContext: settings.current.agent.agent_context,
        additionalContext: verdict?.additionalContext ?? [],
      })
      if (stored !== undefined) {
        isNew = false
        assertSameMessage(JSON.parse(stored.bytes.toString()), draft, secrets)
        return []
      }
      const status = transition(now.status, 'send')
      return [
        ...runtimes.systemPromptEvents(now, runtime),
        ...closeAbandonedActions(now),
        ...this.#unstartedActions(now).map((call) => rejectionEvent(call, supersededText)),
        ...(status === undefined ? [] : [statusUpdate(status)]),
        ...(goal === undefined ? endGoalEvents(now) : [goalUpdateEvent(goal)]),
        ...(verdict?.events ?? []),
        draft,
        ...(verdict?.isBlocked
          ? [stateUpdate('blocked_messages', { [id]: verdict.reason ?? 'blocked' })]
          : []),
        ...(message.run && now.status !== 'running' ? [statusUpdate('running')] : []),
      ]
    })
    return isNew
  }

  /** Actions that wait for confirmation or were left by a pause. */
  #unstartedActions(now: ConversationState): PendingAction[] {
    const isResting = now.status === 'waiting_for_confirmation' || !this.#parts.runs.isActive
    return isResting && now.status !== 'running' ? now.openActions() : []
  }
}
