import {
  callSummary,
  contentText,
  exitCode,
  externalCallSummary,
  externalCallText,
  firstLine,
  jsonText,
  kindName,
  type LogEvent,
  observationText,
  recordOf,
  textOf,
} from './event-facts.ts'

/** Events as Markdown, for a ticket or a chat. Outputs are fenced so that nothing in them is markup. */
export function toMarkdown(events: readonly LogEvent[]): string {
  return `${events.map(eventMarkdown).join('\n\n')}\n`
}

export function eventMarkdown({ position, event }: LogEvent): string {
  const time = event.timestamp === undefined ? '' : ` · ${firstLine(String(event.timestamp))}`
  const head = `### #${position} ${firstLine(kindName(event.kind))}${time}`
  const body = eventBody(event)
  return body === '' ? head : `${head}\n\n${body}`
}

function eventBody(event: LogEvent['event']): string {
  switch (event.kind) {
    case 'MessageEvent':
      return `**${firstLine(textOf(event.source) ?? 'unknown')}:** ${contentText(recordOf(event.llm_message).content)}`
    case 'ActionEvent': {
      const thought = contentText(event.thought)
      const call = fence(jsonText(event.action ?? recordOf(event.tool_call).arguments), 'json')
      return [thought, `\`${firstLine(textOf(event.tool_name) ?? 'tool')}\` ${callSummary(event)}`, call]
        .filter((part) => part !== '')
        .join('\n\n')
    }
    case 'ObservationEvent': {
      const code = exitCode(event)
      const text = observationText(event.observation)
      return `${code === undefined ? '' : `exit code ${code}\n\n`}${fence(text)}`
    }
    case 'AgentErrorEvent':
      return fence(textOf(event.error) ?? '')
    case 'ConversationErrorEvent':
      return `${textOf(event.code) ?? 'Error'}\n\n${fence(textOf(event.detail) ?? '')}`
    case 'UserRejectObservation':
      return textOf(event.rejection_reason) ?? ''
    case 'ACPToolCallEvent':
      return `${externalCallSummary(event)}\n\n${fence(externalCallText(event))}`
    case 'Condensation':
    case 'CondensationSummaryEvent':
      return textOf(event.summary) ?? ''
    case 'SystemPromptEvent':
      return fence(contentText([event.system_prompt]))
    default:
      return fence(jsonText(event), 'json')
  }
}

/** A code block whose fence is longer than any run of backticks within it. */
export function fence(text: string, language = ''): string {
  let longest = 2
  // Their number has no limit, so they are no arguments of one call.
  for (const [run] of text.matchAll(/`+/g)) longest = Math.max(longest, run.length)
  const marks = '`'.repeat(longest + 1)
  return `${marks}${language}\n${text}\n${marks}`
}
