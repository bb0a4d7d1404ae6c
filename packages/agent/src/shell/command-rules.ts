import type { CommandRule } from '@slipway/protocol'
import { matchesStars } from '@slipway/shared/text'
import { parseScript, type ShellCall } from './script.ts'
import { unknownText } from './words.ts'

/** Longer texts are not read. In UTF-16 units. */
const maxLength = 32 * 1024

/**
 * What rules say about a shell text; undefined when they say nothing. Each simple command counts on its own,
 * those in substitutions, wrappers and texts for other shells too. One denied command denies the text, one to
 * ask about asks. It is allowed only when every command fits a rule that allows, sets no variables and
 * writes no file by redirection. A text that cannot be read is asked about when a rule denies or asks.
 */
export async function decideCommand(
  command: string,
  rules: readonly CommandRule[],
): Promise<CommandRule | undefined> {
  if (rules.length === 0 || command.trim() === '') return undefined
  const find = (call: ShellCall, decision: CommandRule['decision']) =>
    rules.find((rule) => rule.decision === decision && matchesPattern(commandText(call), rule.pattern))
  const strictRule = rules.find(({ decision }) => decision !== 'allow')
  const unread = strictRule && { pattern: strictRule.pattern, decision: 'ask' as const }
  if (command.length > maxLength) return unread
  const { calls, hasErrors, isTooDeep, isTooLong } = await parseScript(command)
  const first = (decision: CommandRule['decision']) =>
    calls.map((call) => find(call, decision)).find((rule) => rule !== undefined)
  const strict = first('deny') ?? first('ask')
  if (strict !== undefined) return strict
  const isUnreadable = hasErrors || isTooDeep || isTooLong
  if (isUnreadable || calls.some(({ name }) => name.includes(unknownText))) return unread
  const allowing = calls.map((call) => (isPlain(call) ? find(call, 'allow') : undefined))
  return allowing.every((rule) => rule !== undefined) ? allowing[0] : undefined
}

function commandText({ name, args }: ShellCall): string {
  return [name, ...args].join(' ')
}

/** Nothing but the program and its arguments decides what the call does. */
function isPlain({ assignments, writes }: ShellCall): boolean {
  return assignments.size === 0 && writes.every((path) => path === '/dev/null')
}

/** `*` stands for any text; one at the end, behind a space, for nothing too. */
export function matchesPattern(text: string, pattern: string): boolean {
  if (pattern.endsWith(' *') && matchesStars(text, pattern.slice(0, -2))) return true
  return matchesStars(text, pattern)
}
