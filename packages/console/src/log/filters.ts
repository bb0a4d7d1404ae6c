import { contentText, eventTime, isFailure, recordOf, searchText } from '@slipway/protocol/event-text'
import { definedMembers } from '@slipway/shared/json'
import type { LogEvent, ServerFilter, WireEvent } from '../api/log.ts'

/** What the timeline shows; every member is part of the page's address. */
export interface LogFilter {
  /** A preset that hides noise. */
  readonly view?: ViewName | undefined
  readonly kind?: string | undefined
  readonly source?: string | undefined
  readonly tool?: string | undefined
  readonly failed?: boolean | undefined
  readonly q?: string | undefined
  /** Where `q` is searched: in the messages of the whole log, or in everything, page by page. */
  readonly in?: TextScope | undefined
  /** Instants, ISO 8601: from this one on, and before that one. */
  readonly from?: string | undefined
  readonly until?: string | undefined
}

export const viewNames = ['work', 'talk', 'all'] as const
type ViewName = (typeof viewNames)[number]
export const viewLabels: Readonly<Record<ViewName, string>> = {
  work: 'Without noise',
  talk: 'Messages only',
  all: 'Everything',
}

export const textScopes = ['messages', 'everything'] as const
type TextScope = (typeof textScopes)[number]

/** Whether the server's index of messages answers a filter: it knows neither tools nor failures. */
export function isMessageSearch({ q, in: scope, tool, failed }: LogFilter): boolean {
  return q !== undefined && scope === 'messages' && tool === undefined && !failed
}

const noise = new Set(['ConversationStateUpdateEvent', 'TokenEvent', 'LLMCompletionLogEvent'])
const quietTools = new Set(['finish'])

function isInView(view: ViewName, event: WireEvent): boolean {
  if (view === 'all') return true
  // An update that begins another branch is the one of its kind that a reader has to see.
  if (view === 'work') return !noise.has(event.kind) || event.key === 'leaf_event_id'
  const isFinish = event.kind === 'ActionEvent' && quietTools.has(String(event.tool_name))
  return isFinish || event.kind === 'MessageEvent' || event.kind === 'ConversationErrorEvent'
}

/** Whether anything but a preset is chosen. */
export function isFiltered({ view: _, in: __, ...filter }: LogFilter): boolean {
  return Object.values(filter).some((value) => value !== undefined && value !== '' && value !== false)
}

/** A function that says whether an event is shown. */
export function compileFilter(filter: LogFilter): (event: LogEvent) => boolean {
  const { view = 'work', kind, source, tool, failed, q, from, until } = filter
  const needle = q === undefined ? undefined : foldCase(q)
  const isInMessages = filter.in === 'messages'
  const fromTime = from === undefined ? undefined : Date.parse(from)
  const untilTime = until === undefined ? undefined : Date.parse(until)
  return (item) => {
    const { event } = item
    if (kind === undefined && !isInView(view, event)) return false
    if (kind !== undefined && event.kind !== kind) return false
    if (source !== undefined && event.source !== source) return false
    if (tool !== undefined && event.tool_name !== tool) return false
    if (failed && !isFailure(event)) return false
    if (fromTime !== undefined && !(eventTime(event) >= fromTime)) return false
    if (untilTime !== undefined && !(eventTime(event) < untilTime)) return false
    if (needle === undefined || needle === '') return true
    if (isInMessages && event.kind !== 'MessageEvent') return false
    return foldCase(isInMessages ? messageText(event) : searchText(item)).includes(needle)
  }
}

function messageText(event: WireEvent): string {
  return contentText(recordOf(event.llm_message).content)
}

/** Lower case with one form of each letter, as the server's index compares texts. */
function foldCase(text: string): string {
  return text.normalize('NFC').toLowerCase().replaceAll('ς', 'σ')
}

/**
 * What of a filter the server can search by; every event that matches the filter matches it. Undefined when
 * that leaves too much.
 */
export function serverFilter(filter: LogFilter): ServerFilter | undefined {
  const { kind, source, tool, failed, q, from, until } = filter
  const body = isMessageSearch(filter) ? q : undefined
  if (kind === undefined && tool === undefined && !failed && source === undefined && body === undefined)
    return undefined
  const times = { timestamp__gte: from, timestamp__lt: until }
  return definedMembers({ body, kind, source, tool, failed: failed ? 'true' : undefined, ...times })
}

/** The filter in the search of an address; what is not understood is left out. */
export function parseFilter(search: Readonly<Record<string, unknown>>): LogFilter {
  const text = (name: string) => {
    const value = search[name]
    return typeof value === 'string' || typeof value === 'number' ? String(value) || undefined : undefined
  }
  const instant = (name: string) => {
    const value = text(name)
    return value !== undefined && !Number.isNaN(Date.parse(value)) ? value : undefined
  }
  const view = viewNames.find((name) => name === search.view)
  const filter: LogFilter = {
    view: view === 'work' ? undefined : view,
    kind: text('kind'),
    source: text('source'),
    tool: text('tool'),
    failed: search.failed === true || search.failed === 'true' || undefined,
    q: text('q'),
    in: textScopes.find((scope) => scope === search.in),
    from: instant('from'),
    until: instant('until'),
  }
  return Object.fromEntries(Object.entries(filter).filter(([, value]) => value !== undefined))
}
