import type { CommandExpansionPart, Word, WordPart } from 'unbash'

/** Placeholder in an expanded word for a value known only at run time. Shell words cannot contain it. */
export const unknownText = '\0'

/** Marks field boundaries: an unquoted expansion is split at blanks. */
const fieldSeparator = '\x01'
/** A word that expands to more fields counts as unknown. */
const maxFields = 256

/** The known variables of a script, and the output of command substitutions. */
export interface VariableScope {
  readonly variables: ReadonlyMap<string, string>
  /** The output of a substitution as far as it follows from its text. */
  output(part: CommandExpansionPart): string
}

/** Expands a word to fields: quotes removed, known values filled in. Globs and `~` are not expanded. */
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

/** Expands a word to one text, as in here strings and assignments. */
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

/** The alternatives of `{a,b}`; a range and nested braces are unknown. */
function braceAlternatives(text: string): readonly string[] {
  const inner = text.slice(1, -1)
  return /[{}'"\\$`]/.test(inner) || !inner.includes(',') ? [unknownText] : inner.split(',')
}
