import { leafKey, Problem } from '@slipway/protocol'
import type { EventDraft, EventLog } from '@slipway/storage'
import { agentError, stateUpdate, statusUpdate } from './events/event-drafts.ts'
import { endGoal } from './loop/goal.ts'
import { targetOf } from './state/branch.ts'
import type { State } from './state/state.ts'
import { next } from './state/status.ts'

const departed = 'The call was not done: the conversation went on from another event.'
const elsewhere = 'The call was not done here: it belongs to another branch of the conversation.'

export const pauseEvent: EventDraft = { kind: 'PauseEvent', source: 'user' }
export const interruptEvent: EventDraft = { kind: 'InterruptEvent', source: 'user' }

/** Every action without a result is answered, and the run is over. */
export function stopped(now: State, reason: string): EventDraft[] {
  const answers = now.wanted().map((call) => agentError(call, reason))
  return [...answers, ...endGoal(now), statusUpdate('paused')]
}

/** The leaf is moved to the event of this id, null for none; what has no result is answered on the branch that is left. */
export function departure(now: State, value: string | null): EventDraft[] {
  const idle = next(now.status, 'navigate')
  return [
    ...now.wanted().map((call) => agentError(call, departed)),
    ...endGoal(now),
    ...(idle === undefined ? [] : [statusUpdate(idle)]),
    stateUpdate(leafKey, value),
  ]
}

/** Calls that were left on another branch are answered before this one goes on. */
export function notDoneHere(now: State): EventDraft[] {
  return now.left().map((call) => agentError(call, elsewhere))
}

/**
 * The id of the event that one of this id stands for: of a fact that has moved the leaf, where it leads (null for the beginning).
 * A Problem `not_found` when there is no such event.
 */
export async function placeOf(
  log: EventLog,
  { id, eventId, now }: { readonly id: string; readonly eventId: string; readonly now: State },
): Promise<string | null> {
  const [event] = await log.get(id, [eventId])
  if (event === undefined) throw new Problem('not_found', `Event not found: ${eventId}`)
  const target = targetOf(event, event.position + 1, now.moves) ?? event.position
  if (target === event.position) return event.id
  return target === 0 ? null : ((await log.read(id, target - 1, 1))[0]?.id ?? event.id)
}
