import type { CommandExpansionPart, Word, WordPart } from 'unbash'

/** Stands in a resolved word for what only the shell knows when it runs. No shell word has it otherwise. */
export const unknown = '\0'

/** Separates fields in the making: an expansion outside quotes is split at its blanks. */
const fieldEnd = '\x01'
/** Brace expansions that make more words than this are taken as they are. */
const maxFields = 256

/** What is known of the variables of a script, and how a command substitution is worked out. */
export interface Scope {
  readonly variables: ReadonlyMap<string, string>
  /** The output of a substitution as far as it can be told from its text. */
  output(part: CommandExpansionPart): string
}

/** The words that a word becomes, quotes removed and what is known filled in. Globs and `~` stay as they are. */
export function fields(word: Word, scope: Scope): string[] {
  let made = ['']
  for (const part of word.parts ?? [undefined]) {
    const choices = part === undefined ? [word.value] : partTexts(part, scope)
    if (made.length * choices.length > maxFields) return [unknown]
    made = made.flatMap((start) => choices.map((choice) => start + choice))
  }
  return made.flatMap((text) => {
    const split = text.split(fieldEnd).filter((field) => field !== '')
    return split.length === 0 && !text.includes(fieldEnd) ? [text] : split
  })
}

/** A word as one text: what a quoted word, a here string or an assignment gives. */
export function fieldText(word: Word, scope: Scope): string {
  return fields(word, scope).join(' ')
}

function partTexts(part: WordPart, scope: Scope): readonly string[] {
  if (part.type === 'BraceExpansion') return alternatives(part.text)
  return [partText(part, scope, false)]
}

function partText(part: WordPart, scope: Scope, isQuoted: boolean): string {
  const split = (text: string) => (isQuoted ? text : text.replace(/[ \t\n]+/g, fieldEnd))
  switch (part.type) {
    case 'Literal':
    case 'SingleQuoted':
    case 'AnsiCQuoted':
      return part.value
    case 'Glob':
    case 'ExtendedGlob':
      return part.text
    case 'DoubleQuoted':
    case 'LocaleString':
      return part.parts.map((inner) => partText(inner, scope, true)).join('')
    case 'SimpleExpansion':
      return split(scope.variables.get(part.text.slice(1)) ?? unknown)
    case 'ParameterExpansion': {
      const value =
        part.prefix === undefined && part.index === undefined
          ? scope.variables.get(part.parameter)
          : undefined
      const { operation } = part
      if (operation === undefined) return split(value ?? unknown)
      const isDefault = operation.type === 'Default' && operation.operator.includes('-')
      return isDefault ? split(value ?? fieldText(operation.operand, scope)) : unknown
    }
    case 'CommandExpansion':
      return split(scope.output(part).replace(/\n+$/, ''))
    default:
      return unknown
  }
}

/** `{a,b}` as its parts; a range, and braces in braces, as one unknown. */
function alternatives(text: string): readonly string[] {
  const inner = text.slice(1, -1)
  return /[{}'"\\$`]/.test(inner) || !inner.includes(',') ? [unknown] : inner.split(',')
}
