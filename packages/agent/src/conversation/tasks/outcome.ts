import type { Event, ExecutionStatus } from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { EventLog } from '@slipway/storage'
import type { TaskResult } from '../../tools/core/task-executor.ts'
import { finalResponse } from '../events/final-response.ts'
import type { ChildConversation } from './child-conversations.ts'

const stoppedText = 'The conversation that this task was for was stopped.'
/** How often, and how many times, an inactive child with status `running` is checked again. */
const pollMs = 50
const maxPolls = 100

/** Resolves when a child is idle and waits for no confirmation; with `deleting` when it is gone. */
export async function waitForChild(
  child: ChildConversation,
  { log, clock }: { readonly log: EventLog; readonly clock: Clock },
  signal: AbortSignal,
): Promise<ExecutionStatus> {
  for (let polls = 0; ; ) {
    await child.waitUntilIdle()
    const { status, position } = child.state
    if (signal.aborted) return status
    if (status === 'waiting_for_confirmation') {
      polls = 0
      if (!(await hasNewEvents(log, { id: child.id, position }, signal)) && !signal.aborted) return 'deleting'
    } else if (status !== 'running') return status
    else if (!(await conversationExists(log, child.id))) return 'deleting'
    // A run is about to start after a confirmation.
    else if (polls++ < maxPolls) await clock.sleep(pollMs)
    else return 'error'
  }
}

/** Waits for an event after a position; false when the conversation was deleted or the signal aborts. */
async function hasNewEvents(
  log: EventLog,
  { id, position }: { readonly id: string; readonly position: number },
  signal: AbortSignal,
): Promise<boolean> {
  for await (const _ of log.tail(id, position, signal)) return true
  return false
}

async function conversationExists(log: EventLog, id: string): Promise<boolean> {
  return await log.read(id, 0, 1).then(
    () => true,
    () => false,
  )
}

/** Nothing waits any more, or only a finish is pending. */
export function isTaskDone({ state }: ChildConversation): boolean {
  const { pending, isAwaiting } = state
  if (pending.size === 0) return !isAwaiting
  return pending.values().every(({ action }) => action?.kind === 'FinishAction')
}

/** Stops a child and rejects what waits for confirmation there. Never rejects. */
export async function stopChild(child: ChildConversation): Promise<void> {
  try {
    if (child.state.status === 'waiting_for_confirmation')
      await child.resolveConfirmation({ accept: false, reason: stoppedText })
    await child.interrupt()
  } catch {
    // It is gone or closing, so it does nothing any more.
  }
}

export async function taskOutcome(
  end: {
    readonly child: ChildConversation
    readonly log: EventLog
    readonly status: ExecutionStatus
    readonly reason: string | undefined
  },
  signal: AbortSignal,
): Promise<Pick<TaskResult, 'status' | 'text'>> {
  const { child, log, status, reason } = end
  if (status === 'finished' || (status === 'paused' && child.state.pending.size === 0 && isTaskDone(child))) {
    const response = await finalResponse(log, child.id, signal)
    return { status: 'completed', text: response === '' ? 'The agent finished without a word.' : response }
  }
  const error = status === 'error' ? await lastError(log, child.id) : undefined
  const texts: Partial<Record<ExecutionStatus, string>> = {
    stuck: 'The agent went in circles and was stopped.',
    paused: 'The task was paused by the user before it was done.',
    idle: 'The user rejected what the agent was about to do.',
    deleting: 'The conversation of the task was deleted.',
    error: error === undefined ? 'The agent failed.' : `The agent failed. ${error.code}: ${error.detail}`,
  }
  return { status: 'error', text: reason ?? texts[status] ?? 'The task was not done.' }
}

async function lastError(log: EventLog, id: string) {
  const query = { kind: 'ConversationErrorEvent', limit: 1, sort_order: 'TIMESTAMP_DESC' } as const
  const [item] = (await log.search(id, query)).items
  if (item === undefined) return undefined
  const event: Extract<Event, { kind: 'ConversationErrorEvent' }> = JSON.parse(item.bytes.toString())
  return event
}
