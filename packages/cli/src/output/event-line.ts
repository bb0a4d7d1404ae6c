import { defaultSource, messageTexts } from '@slipway/protocol'
import { actionText, json, type Members, membersOf, tableOf, textOf } from './action-text.ts'
import { cut, visible } from './sanitize.ts'

/** An event in one line for people, safe to print. */
export interface EventLine {
  /** Its timestamp as it is, empty when it has none. */
  readonly time: string
  readonly kind: string
  /** Its own, or the default of its kind. */
  readonly source: string
  /** What it says, at most 500 characters. */
  readonly summary: string
}

/** Takes any JSON value: kept events of other versions have kinds and shapes of their own. */
export function eventLine(event: unknown): EventLine {
  const members = membersOf(event)
  const kind = textOf(members.kind)
  return {
    time: visible(textOf(members.timestamp)),
    kind: visible(kind),
    source: visible(textOf(members.source) || (defaultSource(kind) ?? '')),
    summary: cut(visible(cut((summaries.get(kind) ?? other)(members), 2000)), 500).trim(),
  }
}

const summaries = tableOf({
  MessageEvent: (event) => messageTexts(event).join(' ') || '(no text)',
  ActionEvent: actionSummary,
  ObservationEvent: observationSummary,
  UserRejectObservation(event) {
    const by = event.rejection_source === 'hook' ? ' by a hook' : ''
    const reason = textOf(event.rejection_reason) || 'User rejected the action'
    return `${textOf(event.tool_name)} refused${by}: ${reason}`
  },
  AgentErrorEvent: (event) => `${textOf(event.tool_name)}: ${textOf(event.error)}`,
  ConversationErrorEvent: (event) => `${textOf(event.code)}: ${textOf(event.detail)}`,
  ConversationStateUpdateEvent: (event) =>
    event.key === 'execution_status'
      ? `status: ${statusWords(textOf(event.value))}`
      : `${textOf(event.key)} = ${json(event.value)}`,
  SystemPromptEvent: (event) => `${contentText([event.system_prompt])} (${sizeOf(event.tools)} tools)`,
  Condensation: (event) => `${sizeOf(event.forgotten_event_ids)} events forgotten: ${textOf(event.summary)}`,
  CondensationSummaryEvent: (event) => textOf(event.summary),
  LLMCompletionLogEvent: (event) => `${textOf(event.filename)} (${textOf(event.model_name) || 'unknown'})`,
  TokenEvent: (event) =>
    `${sizeOf(event.prompt_token_ids)} prompt tokens, ${sizeOf(event.response_token_ids)} response tokens`,
  CondensationRequest: () => 'a condensation was asked for',
  PauseEvent: () => 'the run was stopped',
})

/** A status of a conversation as it is said to people. */
export function statusWords(status: string): string {
  return status === 'waiting_for_confirmation' ? 'waits for confirmation' : status
}

function observationSummary(event: Members): string {
  const { content, is_error, exit_code, kind } = membersOf(event.observation)
  const code = typeof exit_code === 'number' && exit_code > 0 ? ` (exit code ${exit_code})` : ''
  const failed = is_error === true ? ' failed' : ''
  return `${textOf(event.tool_name)}${failed}${code}: ${contentText(content) || `(${textOf(kind)})`}`
}

function actionSummary(event: Members): string {
  const risk = textOf(event.security_risk)
  const tool = `${textOf(event.tool_name)}${risk === 'HIGH' || risk === 'MEDIUM' ? ` [${risk}]` : ''}`
  const summary = textOf(event.summary)
  // One that only repeats the call is said better by the action.
  const isOwn = summary !== '' && !summary.startsWith(`${textOf(event.tool_name)}:`)
  const words = (isOwn && summary) || contentText(event.thought) || actionText(event.action)
  return event.action === undefined || event.action === null
    ? `${tool} (not executable): ${words}`
    : `${tool}: ${words}`
}

function other(event: Members): string {
  const { id: _id, timestamp: _timestamp, source: _source, kind: _kind, ...rest } = event
  return json(rest)
}

function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  return Array.isArray(content)
    ? content
        .map((part) => textOf(membersOf(part).text))
        .join(' ')
        .trim()
    : ''
}

function sizeOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0
}
