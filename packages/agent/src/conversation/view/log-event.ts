import type { Event } from '@slipway/protocol'
import { questionTool } from '../../tools/core/server-question.ts'

/** An event in the log. Imported events of a known kind may have members of another shape. */
export type LogEvent = Event & { readonly id: string }

const viewKinds = [
  'SystemPromptEvent',
  'MessageEvent',
  'ActionEvent',
  'ObservationEvent',
  'AgentErrorEvent',
  'UserRejectObservation',
  'CondensationSummaryEvent',
] as const
const kinds: ReadonlySet<string> = new Set(viewKinds)

export type LogEventOf<K extends Event['kind']> = Extract<LogEvent, { kind: K }>

/** An event that the model sees. */
export type ViewEvent = LogEventOf<(typeof viewKinds)[number]>

export type ResultEvent = LogEventOf<'ObservationEvent' | 'AgentErrorEvent' | 'UserRejectObservation'>

export function isViewEvent(event: LogEvent | undefined): event is ViewEvent {
  return event !== undefined && kinds.has(event.kind) && !isOfQuestion(event)
}

/** What an MCP server asks the user, and its end: the model has not called it. */
function isOfQuestion(event: object): boolean {
  return 'tool_name' in event && event.tool_name === questionTool
}

export function isResult(event: LogEvent): event is ResultEvent {
  return ['ObservationEvent', 'AgentErrorEvent', 'UserRejectObservation'].includes(event.kind)
}

/** A message of the user, not a nudge of the server. */
export function isUserMessage(event: LogEvent): boolean {
  return event.kind === 'MessageEvent' && event.source === 'user' && event.llm_message?.role === 'user'
}
