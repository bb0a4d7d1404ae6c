import type { CommandExpansionPart, Word, WordPart } from 'unbash'

/** Stands in a resolved word for what only the shell knows when it runs. No shell word has it otherwise. */
export const unknownText = '\0'

/** Separates fields in the making: an expansion outside quotes is split at its blanks. */
const fieldSeparator = '\x01'
/** Brace expansions that make more words than this are taken as they are. */
const maxFields = 256

/** What is known of the variables of a script, and how a command substitution is worked out. */
export interface VariableScope {
  readonly variables: ReadonlyMap<string, string>
  /** The output of a substitution as far as it can be told from its text. */
  output(part: CommandExpansionPart): string
}

/** The words that a word becomes, quotes removed and what is known filled in. Globs and `~` stay as they are. */
export function expandWord(word: Word, scope: VariableScope): string[] {
  let expanded = ['']
  for (const part of word.parts ?? [undefined]) {
    const choices = part === undefined ? [word.value] : expandPart(part, scope)
    if (expanded.length * choices.length > maxFields) return [unknownText]
    expanded = expanded.flatMap((start) => choices.map((choice) => start + choice))
  }
  return expanded.flatMap((text) => {
    const split = text.split(fieldSeparator).filter((field) => field !== '')
    return split.length === 0 && !text.includes(fieldSeparator) ? [text] : split
  })
}

/** A word as one text: what a quoted word, a here string or an assignment gives. */
export function expandToText(word: Word, scope: VariableScope): string {
  return expandWord(word, scope).join(' ')
}

function expandPart(part: WordPart, scope: VariableScope): readonly string[] {
  if (part.type === 'BraceExpansion') return braceAlternatives(part.text)
  return [partValue(part, scope, false)]
}

function partValue(part: WordPart, scope: VariableScope, isQuoted: boolean): string {
  const split = (text: string) => (isQuoted ? text : text.replace(/[ \t\n]+/g, fieldSeparator))
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
      return part.parts.map((inner) => partValue(inner, scope, true)).join('')
    case 'SimpleExpansion':
      return split(scope.variables.get(part.text.slice(1)) ?? unknownText)
    case 'ParameterExpansion': {
      const value =
        part.prefix === undefined && part.index === undefined
          ? scope.variables.get(part.parameter)
          : undefined
      const { operation } = part
      if (operation === undefined) return split(value ?? unknownText)
      const isDefault = operation.type === 'Default' && operation.operator.includes('-')
      return isDefault ? split(value ?? expandToText(operation.operand, scope)) : unknownText
    }
    case 'CommandExpansion':
      return split(scope.output(part).replace(/\n+$/, ''))
    default:
      return unknownText
  }
}

/** `{a,b}` as its parts; a range, and braces in braces, as one unknown. */
function braceAlternatives(text: string): readonly string[] {
  const inner = text.slice(1, -1)
  return /[{}'"\\$`]/.test(inner) || !inner.includes(',') ? [unknownText] : inner.split(',')
}
