import { defaultSource, messageTexts } from '@slipway/protocol'
import { cut, visible } from './visible.ts'

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

type Members = Readonly<Record<string, unknown>>

/** Takes any JSON value: kept events of other versions have kinds and shapes of their own. */
export function eventLine(event: unknown): EventLine {
  const members = membersOf(event)
  const kind = textOf(members.kind)
  return {
    time: visible(textOf(members.timestamp)),
    kind: visible(kind),
    source: visible(textOf(members.source) || (defaultSource(kind) ?? '')),
    summary: cut(visible(cut((summaries[kind] ?? other)(members), 2000)), 500).trim(),
  }
}

const nothing = () => ''

const summaries: Readonly<Record<string, (event: Members) => string>> = {
  MessageEvent: (event) => messageTexts(event).join(' ') || '(no text)',
  ActionEvent: actionSummary,
  ObservationEvent(event) {
    const { content, is_error, kind } = membersOf(event.observation)
    return `${textOf(event.tool_name)}${is_error === true ? ' failed' : ''}: ${contentText(content) || `(${textOf(kind)})`}`
  },
  UserRejectObservation: (event) =>
    `${textOf(event.tool_name)} refused: ${textOf(event.rejection_reason) || 'User rejected the action'}`,
  AgentErrorEvent: (event) => `${textOf(event.tool_name)}: ${textOf(event.error)}`,
  ConversationErrorEvent: (event) => `${textOf(event.code)}: ${textOf(event.detail)}`,
  ConversationStateUpdateEvent: (event) => `${textOf(event.key)} = ${json(event.value)}`,
  SystemPromptEvent: (event) => `${contentText([event.system_prompt])} (${sizeOf(event.tools)} tools)`,
  Condensation: (event) => `${sizeOf(event.forgotten_event_ids)} events forgotten: ${textOf(event.summary)}`,
  CondensationSummaryEvent: (event) => textOf(event.summary),
  LLMCompletionLogEvent: (event) => `${textOf(event.filename)} (${textOf(event.model_name) || 'unknown'})`,
  TokenEvent: (event) =>
    `${sizeOf(event.prompt_token_ids)} prompt tokens, ${sizeOf(event.response_token_ids)} response tokens`,
  CondensationRequest: nothing,
  PauseEvent: nothing,
}

function actionSummary(event: Members): string {
  const risk = textOf(event.security_risk)
  const tool = `${textOf(event.tool_name)}${risk === 'HIGH' || risk === 'MEDIUM' ? ` [${risk}]` : ''}`
  const { kind: _, ...input } = membersOf(event.action)
  const words = textOf(event.summary) || contentText(event.thought) || json(input)
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

/** JSON without what is never rendered (spec 2.4). */
function json(value: unknown): string {
  return JSON.stringify(value, (key, member) => (isHidden(key) ? undefined : member)) ?? ''
}

function isHidden(key: string): boolean {
  return key === 'encrypted_content' || key === 'signature'
}

function membersOf(value: unknown): Members {
  return typeof value === 'object' && value !== null ? { ...value } : {}
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : ''
}

function sizeOf(value: unknown): number {
  return Array.isArray(value) ? value.length : 0
}
