import { asObject, asString, type JsonObject } from './action-text.ts'
import type { Style } from './terminal.ts'

/** A line about something beside the agent's work, and what explains it. Not safe to print. */
export interface StateNote {
  readonly text: string
  readonly style: Style
  readonly details: string
}

/**
 * What a hook did; nothing when it let everything continue. `execution`: of a state update or an
 * event.
 */
export function hookNote(execution: JsonObject): StateNote | undefined {
  const event = asString(execution.event ?? execution.hook_event_type)
  const name = asString(execution.name) || asString(execution.command ?? execution.hook_command) || 'hook'
  const unchecked = uncheckedParts.get(event)
  const part = execution.tool_name === 'terminal' && event === 'PreToolUse' ? 'command' : unchecked
  if (execution.blocked === true) {
    // A refused call has its reason in its own line.
    const reason = event === 'PreToolUse' ? '' : asString(execution.reason)
    const text = `hook ${name} blocked${part === undefined ? '' : ` the ${part}`}`
    return { text: reason === '' ? text : `${text}: ${reason}`, style: 'yellow', details: '' }
  }
  if (execution.success !== false) return undefined
  const { exit_code } = execution
  const error = asString(execution.error)
  const hasCode = typeof exit_code === 'number' && exit_code >= 0
  const cause = hasCode ? `exit code ${exit_code}` : error.split('\n', 1)[0] || 'it did not end'
  const result = part === undefined ? '' : `: the ${part} was not checked`
  const details = hasCode ? error.replace(/^ended with exit code \d+:? ?/, '') : ''
  return { text: `hook ${name} failed (${cause})${result}`, style: 'red', details }
}

/** By event: what the hook would have checked. */
const uncheckedParts: ReadonlyMap<string, string> = new Map([
  ['PreToolUse', 'call'],
  ['PostToolUse', 'result'],
  ['UserPromptSubmit', 'message'],
  ['Stop', 'end'],
])

/** What a repository brings and may not do; nothing when it may. `directory`: of the user. */
export function consentNote(notice: JsonObject, directory: string | undefined): StateNote | undefined {
  const { decision } = notice
  const items = Array.isArray(notice.items) ? notice.items.map((item) => asObject(item).kind) : []
  const things = items.length === 0 || items.includes('hook') ? 'hooks' : 'agents and rules'
  const repository = asString(notice.repository)
  const target = repository.startsWith('/') && repository !== directory ? repository : '.'
  const subject = `the ${things} of this repository`
  const texts = new Map([
    ['skipped', `${subject} are not active: slipway trust ${target}`],
    ['pending', `${subject} wait for consent: slipway trust ${target}`],
    ['denied', `${subject} were denied`],
  ])
  const text = texts.get(asString(decision))
  return text === undefined ? undefined : { text, style: 'yellow', details: '' }
}
