import { defaultSource, messageTexts } from '@slipway/protocol/client'
import { observationExitCode, observationText } from '@slipway/protocol/event-text'
import {
  actionText,
  asObject,
  asString,
  formatterMap,
  type JsonObject,
  riskMark,
  toDisplayJson,
} from './action-text.ts'
import { sanitizeLine, truncate } from './sanitize.ts'

/** An event in one line for people, safe to print. */
export interface EventLine {
  /** Its timestamp as it is, empty without one. */
  readonly time: string
  readonly kind: string
  /** Its own, or the default of its kind. */
  readonly source: string
  /** At most 500 characters. */
  readonly summary: string
}

/** Accepts any JSON value: stored events of other versions have other kinds and shapes. */
export function summarizeEvent(event: unknown): EventLine {
  const members = asObject(event)
  const kind = asString(members.kind)
  return {
    time: sanitizeLine(asString(members.timestamp)),
    kind: sanitizeLine(kind),
    source: sanitizeLine(asString(members.source) || (defaultSource(kind) ?? '')),
    summary: truncate(
      sanitizeLine(truncate((eventFormatters.get(kind) ?? otherEventSummary)(members), 2000)),
      500,
    ).trim(),
  }
}

const eventFormatters = formatterMap({
  MessageEvent: (event) => messageTexts(event).join(' ') || '(no text)',
  ActionEvent: actionSummary,
  ObservationEvent: observationSummary,
  UserRejectObservation(event) {
    const by = event.rejection_source === 'hook' ? ' by a hook' : ''
    const reason = asString(event.rejection_reason) || 'User rejected the action'
    return `${asString(event.tool_name)} refused${by}: ${reason}`
  },
  AgentErrorEvent: (event) => `${asString(event.tool_name)}: ${asString(event.error)}`,
  ACPToolCallEvent: (event) => `${asString(event.title)} (${asString(event.status) || 'unknown'})`,
  ConversationErrorEvent: (event) => `${asString(event.code)}: ${asString(event.detail)}`,
  ConversationStateUpdateEvent: (event) =>
    event.key === 'execution_status'
      ? `status: ${statusText(asString(event.value))}`
      : `${asString(event.key)} = ${toDisplayJson(event.value)}`,
  SystemPromptEvent: (event) => `${contentText([event.system_prompt])} (${arrayLength(event.tools)} tools)`,
  Condensation: (event) =>
    `${arrayLength(event.forgotten_event_ids)} events forgotten: ${asString(event.summary)}`,
  CondensationSummaryEvent: (event) => asString(event.summary),
  LLMCompletionLogEvent: (event) =>
    `${asString(event.filename)} (${asString(event.model_name) || 'unknown'})`,
  TokenEvent: (event) =>
    `${arrayLength(event.prompt_token_ids)} prompt tokens, ${arrayLength(event.response_token_ids)} response tokens`,
  CondensationRequest: () => 'a condensation was asked for',
  PauseEvent: () => 'the run was stopped',
})

/** An execution status for people. */
export function statusText(status: string): string {
  return status === 'waiting_for_confirmation' ? 'waits for confirmation' : status
}

function observationSummary(event: JsonObject): string {
  const { content, is_error, kind } = asObject(event.observation)
  const exitCode = observationExitCode(event.observation) ?? 0
  const code = exitCode === 0 ? '' : ` (exit code ${exitCode})`
  const failedMark = is_error === true ? ' failed' : ''
  const text = contentText(content) || observationText(event.observation)
  return `${asString(event.tool_name)}${failedMark}${code}: ${text || `(${asString(kind)})`}`
}

function actionSummary(event: JsonObject): string {
  const tool = asString(event.tool_name) + riskMark(asString(event.security_risk))
  const summary = asString(event.summary)
  // One that only repeats the call is said better by the action.
  const isOwn = summary !== '' && !summary.startsWith(`${asString(event.tool_name)}:`)
  const text = (isOwn && summary) || contentText(event.thought) || actionText(event.action)
  return event.action === undefined || event.action === null
    ? `${tool} (not executable): ${text}`
    : `${tool}: ${text}`
}

function otherEventSummary(event: JsonObject): string {
  const { id: _id, timestamp: _timestamp, source: _source, kind: _kind, ...rest } = event
  return toDisplayJson(rest)
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  const parts = Array.isArray(content) ? content : []
  return parts
    .map((part) => asString(asObject(part).text))
    .join(' ')
    .trim()
}

function arrayLength(value: unknown): number {
  return Array.isArray(value) ? value.length : 0
}
