import { randomUUID } from 'node:crypto'
import {
  type GoalState,
  parseInstant,
  type SendMessageRequest,
  supersededReason,
  type TextContent,
} from '@slipway/protocol'
import type { StoredEvent } from '@slipway/storage'
import { planModeText } from './confirm/plan-mode.ts'
import type { ConversationParts } from './conversation-parts.ts'
import { stateUpdate, statusUpdate } from './events/event-drafts.ts'
import { assertCanStartGoal, endGoalEvents, goalUpdateEvent } from './loop/goal.ts'
import { closeAbandonedActions } from './navigate.ts'
import { assertNothingWaits } from './run-control.ts'
import { type RunSlot, runLimitProblem } from './runtime/deps.ts'
import { promptOfMessage } from './runtime/server-prompts.ts'
import { type ConversationState, planModeKey } from './state/state.ts'
import { transition } from './state/status.ts'
import { rejectOpenCalls } from './stop-events.ts'
import { assertSameMessage, messageText, userMessageEvent } from './user-message.ts'

interface SendOptions {
  readonly id?: string | undefined
  /** The message is the objective of this goal; any other message ends the current goal. */
  readonly goal?: GoalState
  /** Reserved by the caller for the run of this message. */
  readonly slot?: RunSlot | undefined
  /** False: a Problem `forbidden` while something waits for an answer, which a message would give. */
  readonly mayAnswer?: boolean | undefined
}

const savedText = 'Message saved, but the conversation run limit was reached. Retry the run request later.'

/**
 * Stores a user message and starts a run if requested. When no run slot is free the message is stored without
 * a run, and the Problem `too_many` says so; a goal is not stored then. A repeat under the same id starts the
 * run that such a refusal left out, and nothing else.
 */
export async function sendMessage(
  parts: ConversationParts,
  message: SendMessageRequest,
  options: SendOptions,
): Promise<void> {
  const { context, runs, titles } = parts
  const slot = options.slot ?? (message.run ? runs.reserveSlot() : 'none')
  if (slot === undefined && options.goal !== undefined) throw runLimitProblem()
  let earlier: StoredEvent | undefined
  const store = async () => {
    earlier = await storeMessage(parts, { ...message, run: message.run && slot !== undefined }, options)
  }
  await (message.run && slot !== undefined ? runs.startWith(slot, store) : store())
  await context.questions.settle()
  if (earlier === undefined) titles.setInBackground(context.secrets.redact(messageText(message)))
  if (!message.run || (earlier !== undefined && hasChangedSince(context.state, earlier))) return
  if (slot === undefined && context.state.status !== 'running') throw runLimitProblem(savedText)
  if (earlier !== undefined) await runs.ensureRunning()
}

/** A run or another command came after the event: the status has changed. */
function hasChangedSince({ statusSince }: ConversationState, { instant }: StoredEvent): boolean {
  return statusSince !== undefined && (parseInstant(statusSince) ?? 0) > instant
}

/** The event of this message when it was stored before. */
async function storeMessage(
  { context, runtimes, runs }: ConversationParts,
  message: SendMessageRequest,
  { id: requestedId, goal, mayAnswer = true }: SendOptions,
): Promise<StoredEvent | undefined> {
  const { id: conversation, deps, settings, secrets, closing, append } = context
  const runtime = await runtimes.open().catch(() => undefined)
  // A run reports missing plugins.
  await runtime?.loadMissingPlugins(closing.signal).catch(() => undefined)
  const id = requestedId ?? randomUUID()
  const findStored = async () =>
    requestedId === undefined ? undefined : (await deps.log.get(conversation, [requestedId]))[0]
  const text = messageText(message)
  const payload = { message: text, message_id: id }
  const isNew = (await findStored()) === undefined
  const redact = (words: string) => secrets.redact(words)
  const prompt =
    isNew && runtime !== undefined
      ? await promptOfMessage(runtime, { message: text, redact }, closing.signal)
      : undefined
  const verdict = isNew ? await runtime?.hooks.run('user_prompt_submit', payload, closing.signal) : undefined
  const environment = await runtimes.environment(runtime)
  let earlier: StoredEvent | undefined
  let adoptAnswer: (() => void) | undefined
  await append(async (now) => {
    earlier = await findStored()
    if (goal !== undefined) assertCanStartGoal(now)
    if (!mayAnswer) assertNothingWaits(now)
    const draft = userMessageEvent(withPrompt(message, prompt), {
      id,
      skills: runtime?.skills,
      activatedSkills: now.activatedSkills,
      agentContext: settings.current.agent.agent_context,
      additionalContext: [
        ...(verdict?.additionalContext ?? []),
        ...(settings.isPlanning ? [planModeText] : []),
      ],
    })
    if (earlier !== undefined) {
      assertSameMessage(JSON.parse(earlier.bytes.toString()), draft, secrets)
      return []
    }
    const last = context.wire === 'current' ? [stateUpdate('last_user_message_id', id)] : []
    const canAnswer = goal === undefined && verdict?.isBlocked !== true
    adoptAnswer = canAnswer ? context.questions.readMessage(now, text) : undefined
    if (adoptAnswer !== undefined)
      return [...(verdict?.events ?? []), draft, ...last, statusUpdate('running')]
    const status = transition(now.status, 'send')
    // Actions that wait for confirmation or were left by a pause.
    const isResting = now.status === 'waiting_for_confirmation' || !runs.isActive
    const isSuperseding = isResting && now.status !== 'running'
    const reason = verdict?.reason ?? 'blocked'
    return [
      // From the settings into the log, so that a fork at an earlier event is in plan mode too.
      ...(now.isPlanning === undefined && settings.isPlanning ? [stateUpdate(planModeKey, true)] : []),
      ...runtimes.systemPromptEvents(now, runtime, environment),
      ...closeAbandonedActions(now),
      ...(isSuperseding ? rejectOpenCalls(now, supersededReason) : []),
      ...(status === undefined ? [] : [statusUpdate(status)]),
      ...(goal === undefined ? endGoalEvents(now) : [goalUpdateEvent(goal)]),
      ...(verdict?.events ?? []),
      draft,
      ...last,
      ...(verdict?.isBlocked ? [stateUpdate('blocked_messages', { [id]: reason })] : []),
      ...(message.run && now.status !== 'running' ? [statusUpdate('running')] : []),
    ]
  })
  adoptAnswer?.()
  return earlier
}

/** The words of a prompt of an MCP server stand before what skills and hooks add. */
function withPrompt(message: SendMessageRequest, prompt: TextContent | undefined): SendMessageRequest {
  if (prompt === undefined) return message
  return { ...message, extended_content: [...(message.extended_content ?? []), prompt] }
}
