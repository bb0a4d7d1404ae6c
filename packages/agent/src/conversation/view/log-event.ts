import type { Event } from '@slipway/protocol'

/**
 * An event as it stands in the log. An imported log may hold events of a known kind with members of another shape: the
 * view reads those without failing.
 */
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

/** An event of the log, of one kind or of several. */
export type LogEventOf<K extends Event['kind']> = Extract<LogEvent, { kind: K }>

/** An event that the model is shown. */
export type ViewEvent = LogEventOf<(typeof viewKinds)[number]>

/** What answers a call. */
export type ResultEvent = LogEventOf<'ObservationEvent' | 'AgentErrorEvent' | 'UserRejectObservation'>

export function isViewEvent(event: LogEvent): event is ViewEvent {
  return kinds.has(event.kind)
}

export function isResult(event: LogEvent): event is ResultEvent {
  return ['ObservationEvent', 'AgentErrorEvent', 'UserRejectObservation'].includes(event.kind)
}

/** A message that a user sent, or that stands for one (source `user`): not a nudge of the server's own. */
export function isUserMessage(event: LogEvent): boolean {
  return event.kind === 'MessageEvent' && event.source === 'user' && event.llm_message?.role === 'user'
}
