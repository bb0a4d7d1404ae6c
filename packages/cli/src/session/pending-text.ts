import { actionText, asObject, asString, riskMark, withoutLastLineFeed } from '../output/action-text.ts'
import { sanitizeLine, sanitizeLines } from '../output/sanitize.ts'
import { paint } from '../output/terminal.ts'

/** An action in full, safe to print: its command, or its edit as a diff. */
export function describeAction(event: Readonly<Record<string, unknown>>): string[] {
  const action = asObject(event.action)
  const lines = sanitizeLines(actionText(action))
  const diff = (text: unknown, mark: string, style: 'red' | 'green') =>
    text === undefined || text === null
      ? []
      : sanitizeLines(withoutLastLineFeed(asString(text))).map((line) => paint(style, `${mark} ${line}`))
  return [
    ...lines,
    ...diff(action.old_str, '-', 'red'),
    ...diff(action.new_str ?? action.file_text, '+', 'green'),
  ]
}

/** One line: tool, command, risk. */
export function titleOfAction(event: Readonly<Record<string, unknown>>): string {
  const risk = riskMark(asString(event.security_risk))
  const [first = ''] = sanitizeLines(actionText(event.action))
  return `${sanitizeLine(asString(event.tool_name))}${risk}: ${first}`
}

/**
 * The pattern of a rule for exactly this command; undefined when it is not one simple command, which alone a
 * rule can name.
 */
export function rulePattern(event: Readonly<Record<string, unknown>>): string | undefined {
  const { kind, command } = asObject(event.action)
  if (kind !== 'TerminalAction') return undefined
  const text = asString(command).trim()
  return /^[\w./][\w./ =:@,+-]{0,400}$/.test(text) ? text : undefined
}

/** `rulePattern` of what waits; undefined for several actions: a rule can be made of one command alone. */
export function alwaysPattern(pending: readonly Readonly<Record<string, unknown>>[]): string | undefined {
  const [only, ...others] = pending
  return only === undefined || others.length > 0 ? undefined : rulePattern(only)
}
