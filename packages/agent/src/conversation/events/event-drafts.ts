import type { ExecutionStatus, Message, Observation, SendMessageRequest } from '@slipway/protocol'
import { firstChars } from '@slipway/shared/text'
import type { EventDraft } from '@slipway/storage'
import type { ModelReply } from '../../llm/model.ts'
import { textBlock } from '../../tools/core/tool.ts'
import type { ConversationState, PendingAction } from '../state/state.ts'

/** Drafts of the events that the loop and its callers write (spec 2.2). */

export function stateUpdate(key: string, value: unknown): EventDraft {
  return { kind: 'ConversationStateUpdateEvent', source: 'environment', key, value }
}

export function statusUpdate(status: ExecutionStatus): EventDraft {
  return stateUpdate('execution_status', status)
}

export function userMessage(
  source: 'user' | 'environment',
  text: string,
  members: Readonly<Record<string, unknown>> = {},
): EventDraft {
  return {
    kind: 'MessageEvent',
    source,
    llm_message: textMessage('user', text),
    activated_skills: [],
    extended_content: [],
    ...members,
  }
}

export function agentErrorEvent(
  call: Pick<PendingAction, 'tool_name' | 'tool_call_id'>,
  error: string,
): EventDraft {
  const { tool_name, tool_call_id } = call
  return { kind: 'AgentErrorEvent', source: 'agent', tool_name, tool_call_id, error }
}

/** A question to the user as a pending action, beside the calls of a model. `call`: the id of its call. */
export function questionAction({
  id,
  tool,
  call,
  data,
  risk,
  summary,
}: {
  readonly id: string
  readonly tool: string
  readonly call: string
  readonly data: Readonly<Record<string, unknown>>
  readonly risk: string
  readonly summary: string
}): EventDraft & { readonly id: string } {
  return {
    kind: 'ActionEvent',
    source: 'agent',
    id,
    thought: [],
    thinking_blocks: [],
    action: { data, kind: 'MCPToolAction' },
    tool_name: tool,
    tool_call_id: call,
    tool_call: { id: call, name: tool, arguments: JSON.stringify(data), origin: 'completion' },
    llm_response_id: id,
    security_risk: risk,
    summary,
  }
}

export function observationEvent(call: PendingAction, observation: Observation): EventDraft {
  const { tool_name, tool_call_id, id: action_id } = call
  const { kind, ...members } = observation
  return {
    kind: 'ObservationEvent',
    source: 'environment',
    tool_name,
    tool_call_id,
    // `kind` comes last, as everywhere on the wire.
    observation: { ...members, kind },
    action_id,
  }
}

export function rejectionEvent(
  call: Pick<PendingAction, 'tool_name' | 'tool_call_id' | 'id'>,
  reason: string,
  rejection_source: 'user' | 'hook' = 'user',
): EventDraft {
  const { tool_name, tool_call_id, id: action_id } = call
  return {
    kind: 'UserRejectObservation',
    source: 'environment',
    tool_name,
    tool_call_id,
    action_id,
    rejection_reason: reason,
    rejection_source,
  }
}

/** An end for each call of an external agent without one. */
export function endedExternalCalls(
  { externalCalls = [] }: ConversationState,
  status: 'completed' | 'failed',
): EventDraft[] {
  return externalCalls.map((call) => ({
    kind: 'ACPToolCallEvent',
    source: 'agent',
    ...call,
    status,
    is_error: status === 'failed',
  }))
}

/** The status comes first, so that readers of the error can rely on it. */
export function failureEvents(code: string, detail: string): EventDraft[] {
  return [statusUpdate('error'), errorEvent(code, detail)]
}

export function errorEvent(code: string, detail: string): EventDraft {
  return { kind: 'ConversationErrorEvent', source: 'environment', code, detail: firstChars(detail, 10_000) }
}

export function textMessage(role: 'system' | 'user', text: string): Message {
  return { role, content: [textBlock(text)], thinking_blocks: [] }
}

/** A request to send a text as the user and to start a run. */
export function runRequest(text: string): SendMessageRequest {
  const content = [textBlock(text)]
  return { role: 'user', content, run: true, sender: undefined, extended_content: undefined }
}

/** Completion log and token ids of a reply, if there are any. */
export function recordEvents(reply: ModelReply, usageId: string): EventDraft[] {
  return [...completionLogEvents(reply, usageId), ...tokenEvents(reply)]
}

function completionLogEvents({ completionLog, model }: ModelReply, usageId: string): EventDraft[] {
  if (completionLog === undefined) return []
  const { filename, data: log_data } = completionLog
  const members = { filename, log_data, model_name: model, usage_id: usageId }
  return [{ kind: 'LLMCompletionLogEvent', source: 'environment', ...members }]
}

function tokenEvents({ tokenIds }: ModelReply): EventDraft[] {
  if (tokenIds === undefined) return []
  const { prompt, response } = tokenIds
  return [{ kind: 'TokenEvent', source: 'agent', prompt_token_ids: prompt, response_token_ids: response }]
}
