import { asRecord as recordOf } from '@slipway/shared/json'
import { firstChars } from '@slipway/shared/text'

export { recordOf }

const maxIndents = 20

/** An event as a server sends it: those of other versions have other members. */
export interface WireEvent {
  readonly kind: string
  readonly id?: string
  readonly timestamp?: string
  readonly source?: string
  readonly [member: string]: unknown
}

/** An event and where it is in its log. */
export interface LogEvent {
  readonly position: number
  readonly event: WireEvent
}

/** A text, or undefined for any other value. */
export function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** JSON for people; in one line where it is so deep that its indents would be most of it. */
export function jsonText(value: unknown): string {
  return JSON.stringify(value, undefined, isDeeperThan(value, maxIndents) ? 0 : 2) ?? ''
}

function isDeeperThan(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false
  return levels === 0 || Object.values(value).some((member) => isDeeperThan(member, levels - 1))
}

/** The texts of a list of content parts, joined by empty lines. */
export function contentText(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content
    .map((part) => textOf(recordOf(part).text))
    .filter((text) => text !== undefined)
    .join('\n\n')
}

/** The addresses of the images in a list of content parts. */
export function contentImages(content: unknown): string[] {
  if (!Array.isArray(content)) return []
  return content.flatMap((part) => {
    const urls = recordOf(part).image_urls
    return Array.isArray(urls) ? urls.filter((url) => typeof url === 'string') : []
  })
}

/** Whether an event says that something went wrong. */
export function isFailure(event: WireEvent): boolean {
  if (event.kind === 'AgentErrorEvent' || event.kind === 'ConversationErrorEvent') return true
  if (event.kind === 'UserRejectObservation') return true
  if (event.kind === 'ACPToolCallEvent') return event.is_error === true
  return event.kind === 'ObservationEvent' && isFailedObservation(event.observation)
}

/** The exit code of a command, where the observation has one. */
export function exitCode(event: WireEvent): number | undefined {
  return observationExitCode(event.observation)
}

/** Logs of other versions have the code in `metadata`; -1 says that a command still runs. */
export function observationExitCode(value: unknown): number | undefined {
  const observation = recordOf(value)
  const code = observation.exit_code ?? recordOf(observation.metadata).exit_code
  return typeof code === 'number' && code !== -1 ? code : undefined
}

/**
 * A result that says so, has an error, or has another exit code than 0. Logs of other versions have the text
 * of the error.
 */
export function isFailedObservation(value: unknown): boolean {
  const { is_error, error } = recordOf(value)
  if (is_error === true || error === true || (typeof error === 'string' && error !== '')) return true
  return (observationExitCode(value) ?? 0) !== 0
}

/** The text of an observation: its content, or the member that older logs keep it in. */
export function observationText(value: unknown): string {
  const observation = recordOf(value)
  const text = contentText(observation.content)
  if (text !== '') return text
  for (const name of ['output', 'file_content', 'result', 'text', 'error']) {
    const member = textOf(observation[name])
    if (member !== undefined && member !== '') return member
  }
  return ''
}

/** What a call does, in one line. */
export function callSummary(event: WireEvent): string {
  const action = recordOf(event.action)
  const summary = textOf(event.summary)
  for (const name of ['command', 'path', 'file_path', 'url', 'pattern', 'query', 'dir_path', 'message']) {
    const value = textOf(action[name])
    if (value === undefined) continue
    const path = name === 'command' ? textOf(action.path) : undefined
    return firstLine(path === undefined ? value : `${value} ${path}`)
  }
  return firstLine(summary ?? '')
}

/** What an external agent does or has done, in one line: the title and the status of its call. */
export function externalCallSummary(event: WireEvent): string {
  return [firstLine(textOf(event.title) ?? ''), textOf(event.status)].filter(Boolean).join(' · ')
}

/** The output of a call of an external agent: the texts of its content, or its raw output. */
export function externalCallText(event: WireEvent): string {
  const blocks = Array.isArray(event.content) ? event.content.map(recordOf) : []
  const texts = blocks.map((block) => textOf(recordOf(block.content).text) ?? textOf(block.text))
  const text = texts.filter((one) => one !== undefined).join('\n\n')
  if (text !== '' || event.raw_output === undefined || event.raw_output === null) return text
  return textOf(event.raw_output) ?? jsonText(event.raw_output)
}

/** The changes of files that a call of an external agent shows. */
export function externalCallDiffs(event: WireEvent): { path: string; before: string; after: string }[] {
  const blocks = Array.isArray(event.content) ? event.content.map(recordOf) : []
  return blocks.flatMap((block) => {
    const after = textOf(block.newText)
    if (block.type !== 'diff' || after === undefined) return []
    return [{ path: textOf(block.path) ?? '', before: textOf(block.oldText) ?? '', after }]
  })
}

/** The first line of a text, at most 200 characters. */
export function firstLine(text: string): string {
  const line = firstChars(text, 201).trimStart().split('\n', 1)[0] ?? ''
  return line.length > 200 || line.length < text.trim().length ? `${firstChars(line, 200)} …` : line
}

/** Milliseconds since 1970; NaN when the event has no time. An instant without a zone is UTC. */
export function eventTime(event: WireEvent): number {
  const text = event.timestamp
  if (typeof text !== 'string') return Number.NaN
  return Date.parse(/(?:Z|[+-]\d\d:?\d\d)$/i.test(text) ? text : `${text}Z`)
}

/** Words for the kinds of the specification; an unknown kind is its own word. */
const kindNames: Readonly<Record<string, string>> = {
  ActionEvent: 'Tool call',
  ObservationEvent: 'Result',
  MessageEvent: 'Message',
  AgentErrorEvent: 'Failed call',
  ConversationErrorEvent: 'Error',
  UserRejectObservation: 'Rejected',
  SystemPromptEvent: 'System prompt',
  ConversationStateUpdateEvent: 'State',
  Condensation: 'Condensed',
  CondensationRequest: 'Condensation requested',
  CondensationSummaryEvent: 'Summary',
  HookExecutionEvent: 'Hook',
  ACPToolCallEvent: 'External call',
  LLMCompletionLogEvent: 'Model log',
  TokenEvent: 'Tokens',
  PauseEvent: 'Paused',
}
export const knownKinds = Object.keys(kindNames)

export function kindName(kind: string): string {
  return Object.hasOwn(kindNames, kind) ? String(kindNames[kind]) : kind
}

/** All texts of an event in one, for searching; built when asked for. */
export function searchText({ event }: LogEvent): string {
  const parts: string[] = []
  const visit = (value: unknown, depth: number): void => {
    if (typeof value === 'string') parts.push(value)
    else if (depth < 12 && typeof value === 'object' && value !== null)
      for (const inner of Object.values(value)) visit(inner, depth + 1)
  }
  visit(event, 0)
  return parts.join('\n')
}
