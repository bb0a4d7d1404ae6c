import type { CommandRule, KeyScope } from '@slipway/protocol'
import { InvalidArgumentError } from 'commander'
import { parseTime } from '../output/relative-time.ts'
import { type Limit, parseLimit } from '../parsing/limit.ts'

/** Reads a whole number in a flag. */
export function integerFlag(min: number, max: number): (text: string) => number {
  return (text) => {
    const value = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (value >= min && value <= max) return value
    throw new InvalidArgumentError(`Expected a whole number from ${min} to ${max}.`)
  }
}

/** Reads a limit of a user in a flag. */
export function limitFlag(max: number): (text: string) => Limit {
  return (text) => {
    const limit = parseLimit(text, max)
    if (limit !== undefined) return limit
    throw new InvalidArgumentError(`Expected a whole number from 0 to ${max}, unlimited, or default.`)
  }
}

/** Reads a cursor or a position in a flag. */
export function cursorFlag(text: string): string {
  if (/^\d{1,15}(?:\.[0-9a-f]{8})?$/.test(text)) return text
  throw new InvalidArgumentError('Expected a position, or a cursor of the form 41.9f3c01ab.')
}

/** Adds a flag's text to those before it. */
export function listFlag(text: string, previous: readonly string[] = []): readonly string[] {
  return [...previous, text]
}

/** Reads scopes of a key: `read,act`. */
export function scopesFlag(text: string): readonly KeyScope[] {
  const known = { read: true, act: true, answer: true } satisfies Record<KeyScope, true>
  const names = text.split(',').map((name) => name.trim())
  const scopes = names.filter((name): name is KeyScope => Object.hasOwn(known, name))
  if (scopes.length === names.length) return scopes
  throw new InvalidArgumentError('Expected read, act and answer, separated by commas.')
}

/** Reads a number above zero in a flag. */
export function positiveFlag(text: string): number {
  const value = /^\d{1,12}(\.\d{1,9})?$/.test(text) ? Number(text) : 0
  if (value > 0) return value
  throw new InvalidArgumentError('Expected a number above zero.')
}

/** Reads an amount of money, also none. */
export function dollarsArgument(text: string): number {
  if (/^\d{1,8}(\.\d{1,6})?$/.test(text)) return Number(text)
  throw new InvalidArgumentError('Expected dollars, such as 50 or 0.5.')
}

/** Reads the size of a page in a flag, as text, which is what a query takes. */
export function pageSizeFlag(text: string): string {
  return String(integerFlag(1, 100)(text))
}

/** Reads `key=value` and adds it to those before it. */
export function tagFlag(text: string, previous: Record<string, string> = {}): Record<string, string> {
  const separator = text.indexOf('=')
  if (separator < 1) throw new InvalidArgumentError('Expected key=value.')
  return { ...previous, [text.slice(0, separator)]: text.slice(separator + 1) }
}

const unitMs: Readonly<Record<string, number>> = { m: 60_000, h: 3_600_000, d: 86_400_000 }

/** Reads an age, such as `30d`, as milliseconds. */
export function ageFlag(text: string): number {
  const [, count, unit = ''] = /^(\d{1,9})([mhd])$/.exec(text) ?? []
  const ms = Number(count) * (unitMs[unit] ?? Number.NaN)
  if (Number.isNaN(ms)) throw new InvalidArgumentError('Expected an age such as 90d, 12h or 30m.')
  return ms
}

/** Reads a moment: an age, a day, a date or a time. */
export function timeFlag(text: string): string {
  const time = parseTime(text)
  if (time !== undefined) return time
  throw new InvalidArgumentError(
    'Expected a moment: 2h, 3d, today, yesterday, 2026-05-20 or 2026-05-20T14:30:00Z.',
  )
}

/** How the flags of rules for commands are described. */
export const ruleTexts = {
  allow: 'run commands like "npm test *" without confirmation; repeatable',
  askBefore: 'ask for confirmation of commands like "git push *"; repeatable',
  deny: 'never run commands like "rm -rf *"; repeatable',
} as const

/** The rules that the flags name. */
export function commandRules(flags: {
  readonly allow?: readonly string[]
  readonly askBefore?: readonly string[]
  readonly deny?: readonly string[]
}): CommandRule[] {
  const rules = (patterns: readonly string[] | undefined, decision: CommandRule['decision']) =>
    (patterns ?? []).map((pattern) => ({ pattern, decision }))
  return [...rules(flags.allow, 'allow'), ...rules(flags.askBefore, 'ask'), ...rules(flags.deny, 'deny')]
}
