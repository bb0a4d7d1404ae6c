import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import { clientActionPrefix } from '../../tools/core/client-tool.ts'
import { userMessage } from '../events/event-drafts.ts'
import type { DoorSettings } from '../state/resolved-settings.ts'
import { getMember } from '../view/content-blocks.ts'
import type { LogEvent } from '../view/log-event.ts'
import type { ModelTurn } from './model-turn.ts'

/** Whether the last turn of the model has a valid call of a client tool, and no message came after it. */
export function endsWithClientCall(events: readonly LogEvent[]): boolean {
  let turn: string | undefined
  for (const event of events.toReversed()) {
    if (event.kind === 'MessageEvent') return false
    if (event.kind !== 'ActionEvent') continue
    turn ??= event.llm_response_id
    if (event.llm_response_id !== turn) return false
    if (String(getMember(event.action, 'kind')).startsWith(clientActionPrefix)) return true
  }
  return false
}

/** Why a call of `finish` is not accepted while the request asks for a call of a client tool. */
export function requiredCallIssue({ required_tools: names }: DoorSettings = {}): string | undefined {
  return (
    names &&
    `Call ${names.map((name) => `\`${name}\``).join(' or ')} instead: the client waits for that call.`
  )
}

/** What follows a turn without the call that the request asks for; undefined for any other turn. */
export function requiredCallEvents(
  turn: ModelTurn,
  reply: ModelReply,
  door: DoorSettings | undefined,
): { readonly events: readonly EventDraft[] } | undefined {
  const issue = requiredCallIssue(door)
  if (issue === undefined) return undefined
  if (turn.kind === 'text')
    return reply.stop === 'length' ? undefined : { events: [userMessage('environment', issue)] }
  const isRefused = turn.events.some(
    (event) => event.kind === 'AgentErrorEvent' && event.tool_name === 'finish',
  )
  return isRefused ? { events: [] } : undefined
}
