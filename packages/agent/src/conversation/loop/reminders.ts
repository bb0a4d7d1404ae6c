import { newestTaskList, taskLine } from '../condense/carry.ts'
import { getMember } from '../view/content-blocks.ts'
import { isUserMessage } from '../view/log-event.ts'
import type { ViewEvent } from '../view/view.ts'

/**
 * Messages of the environment that remind an agent, beside results. They are events, so the requests before
 * them stay as they were, and each is found in the view again: it is said once for its cause.
 */

/** Steps without a look at the task list. */
const maxSteps = 10
const overdueHeading = 'The task list was not touched for a while. Its open tasks:'
const finishHeading = 'Nothing was ended: the task list has open tasks.'
const announcedText =
  'You announced an action and called no tool. Call it now; if nothing is left to do, say what was done.'

/** The open tasks, when the agent has not looked at them for ten steps; undefined: nothing is to be said. */
export function overdueTasks(events: readonly ViewEvent[]): string | undefined {
  const replies = new Set<string>()
  const last = events.findLastIndex((event) => {
    if (event.kind === 'ActionEvent') replies.add(event.llm_response_id ?? event.id)
    return isTaskList(event) || textOf(event).startsWith(overdueHeading)
  })
  if (last < 0 || replies.size < maxSteps) return undefined
  const open = openTasks(events)
  return open.length === 0 ? undefined : [overdueHeading, ...open].join('\n')
}

/** Why a `finish` is not accepted yet: once after each message of the user. */
export function openTasksAtFinish(events: readonly ViewEvent[]): string | undefined {
  const open = openTasks(events)
  if (open.length === 0 || wasSaid(events, finishHeading)) return undefined
  return [finishHeading, ...open, 'Do them, or mark what is done; then call finish again.'].join('\n')
}

/** What to say when the last answer announces an action and calls nothing: once after each message. */
export function announcedAction(events: readonly ViewEvent[]): string | undefined {
  const last = events.at(-1)
  if (last?.kind !== 'MessageEvent' || last.source !== 'agent') return undefined
  return isAnnouncement(textOf(last)) && !wasSaid(events, announcedText) ? announcedText : undefined
}

const opener = /^(?:(?:now|next|first|then|so|okay?|alright|great|good|perfect)[,:]?\s+)*/i
const promise = /^(?:I['’]ll|I will|I['’]m going to|I am going to|let me|let['’]s)\s+/i
const filler = /^(?:(?:now|next|first|then|also|quickly)\s+)*/i
/** What tools do. Promises for later (`keep`, `remember`, `wait`) are none of it. */
const act =
  /^(?:add|analy[sz]e|apply|begin|build|change|check|commit|continue|create|debug|delete|edit|examine|execute|explore|find|fix|implement|inspect|install|investigate|list|look(?! forward)|make|move|open|proceed|read|refactor|remove|rename|replace|review|rewrite|run|search|see|start|test|try|update|verify|view|write)\b/i
const condition = /\b(?:if|once|when|after|as soon as|unless|until|before)\b/i
/** Of the whole paragraph. */
const question = /\?|\b(?:if|once|when|after|as soon as|unless|until|before) (?:you|your)\b|\blet me know\b/i

/** Whether the last sentence of a text announces what its writer does next, without a condition. */
export function isAnnouncement(text: string): boolean {
  const paragraph = text.trim().split(/\n+/).at(-1) ?? ''
  const sentence = paragraph.split(/(?<=[.!?])\s+/).at(-1) ?? ''
  const rest = sentence.replace(opener, '')
  if (!promise.test(rest) || condition.test(sentence) || question.test(paragraph)) return false
  return act.test(rest.replace(promise, '').replace(filler, ''))
}

function openTasks(events: readonly ViewEvent[]): string[] {
  return (newestTaskList(events) ?? []).filter(({ status }) => status !== 'done').map(taskLine)
}

function isTaskList(event: ViewEvent): boolean {
  return event.kind === 'ObservationEvent' && event.observation?.kind === 'TaskTrackerObservation'
}

/** Whether it stands behind the user's last message. */
function wasSaid(events: readonly ViewEvent[], text: string): boolean {
  const since = events.slice(events.findLastIndex(isUserMessage) + 1)
  return since.some((event) => textOf(event).startsWith(text))
}

/** Of a message or an error; those of imported logs may have members of another shape. */
function textOf(event: ViewEvent): string {
  const error = event.kind === 'AgentErrorEvent' ? getMember(event, 'error') : undefined
  if (typeof error === 'string') return error
  if (event.kind !== 'MessageEvent') return ''
  const content = getMember(event.llm_message, 'content')
  const texts = Array.isArray(content) ? content.map((part: unknown) => getMember(part, 'text')) : []
  return texts.filter((text) => typeof text === 'string').join('\n')
}
