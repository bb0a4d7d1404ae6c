import { asObject, asString } from '../output/action-text.ts'

/**
 * The pattern of a rule for exactly this command; undefined when it is not one simple command, which alone a
 * rule can name.
 */
function rulePattern(event: Readonly<Record<string, unknown>>): string | undefined {
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
