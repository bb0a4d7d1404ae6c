import { firstChars } from '@slipway/shared/text'

/** Maximum number of patterns of one glob with braces. */
const maxAlternatives = 16
const maxGlobLength = 256
const maxStars = 8
const maxPathLength = 512

/** Letters, digits and underscores of scripts that separate words by spaces. */
const wordCharacter =
  /[[\p{L}\p{M}\p{N}_]--[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}\p{Script=Myanmar}]]/v

/** Whether a text matches. */
export type TextMatcher = (text: string) => boolean

/** Matches a keyword as a whole word (or words, separated by any white space), ignoring case. */
export function keywordPattern(keyword: string): TextMatcher {
  const words = keyword.split(/\s+/).map((word) => RegExp.escape(word))
  const pattern = new RegExp(words.join('\\s+'), 'giu')
  return (text) => {
    pattern.lastIndex = 0
    for (let found = pattern.exec(text); found !== null; found = pattern.exec(text)) {
      if (isWholeWord(text, found.index, pattern.lastIndex)) return true
      // The next match may overlap this one.
      pattern.lastIndex = found.index + characterAt(text, found.index).length
    }
    return false
  }
}

/** Whether both ends of a part of a text are word boundaries. */
function isWholeWord(text: string, start: number, end: number): boolean {
  const isInsideWord = (at: number) =>
    wordCharacter.test(characterBefore(text, at)) && wordCharacter.test(characterAt(text, at))
  return !isInsideWord(start) && !isInsideWord(end)
}

function characterAt(text: string, at: number): string {
  return [...text.slice(at, at + 2)][0] ?? ''
}

function characterBefore(text: string, at: number): string {
  return [...text.slice(Math.max(0, at - 2), at)].at(-1) ?? ''
}

/** Matches `/name` as a separate word, ignoring case: anywhere, or at the start. */
export function commandPattern(command: string, where: 'anywhere' | 'start' = 'anywhere'): TextMatcher {
  const before = where === 'start' ? '^\\s*' : '(?<!\\S)'
  const pattern = new RegExp(`${before}${RegExp.escape(command)}(?!\\S)`, 'iu')
  return (text) => pattern.test(text)
}

/** `star` is `*`, `all` is `**`, `folders` is `**` with a slash: any number of whole folders. */
type Token =
  | { readonly kind: 'star' | 'all' | 'folders' }
  | { readonly kind: 'one'; readonly fits: (character: string) => boolean }

/**
 * A glob over paths with slashes: `*`, `**`, `?`, `[a-z]`, `[!a-z]`, `{a,b}`. Without a slash, it matches the
 * name of a file in any folder; a trailing slash matches everything below. Matching time is bounded: there is
 * no backtracking, and a glob with more than 8 stars or a path of more than 512 characters matches nothing.
 */
export class Glob {
  readonly #alternatives: readonly (readonly Token[])[]
  readonly #isName: boolean

  constructor(glob: string) {
    const rooted = firstChars(glob, maxGlobLength).replace(/^\.?\//, '')
    const whole = rooted.endsWith('/') ? `${rooted}**` : rooted
    this.#isName = !glob.includes('/')
    this.#alternatives = expandBraces(whole)
      .map(parseTokens)
      .filter((glob) => glob.filter(({ kind }) => kind !== 'one').length <= maxStars)
  }

  /** Number of patterns to match, at most 16. */
  get alternatives(): number {
    return this.#alternatives.length
  }

  /** `path` is relative to the root of the glob. */
  matches(path: string): boolean {
    if (path.length > maxPathLength) return false
    const text = [...(this.#isName ? path.slice(path.lastIndexOf('/') + 1) : path)]
    return this.#alternatives.some((glob) => matchTokens(glob, text))
  }
}

/** Expands braces to all combinations, at most 16. Nested braces are literal. */
function expandBraces(glob: string): string[] {
  const expanded: string[] = []
  const queue = [glob]
  for (let next = queue.shift(); next !== undefined; next = queue.shift()) {
    const braces = /\{([^{}]*,[^{}]*)\}/.exec(next)
    if (braces === null) expanded.push(next)
    else if (expanded.length + queue.length < maxAlternatives) {
      const [before, after] = [next.slice(0, braces.index), next.slice(braces.index + braces[0].length)]
      queue.unshift(...(braces[1] ?? '').split(',').map((part) => before + part + after))
    }
  }
  return expanded.slice(0, maxAlternatives)
}

function parseTokens(glob: string): Token[] {
  return [...glob.matchAll(/\*\*\/|\*+|\[[^\]]+\]|[\s\S]/gu)].map(([part]): Token => {
    if (part === '**/') return { kind: 'folders' }
    if (part.startsWith('*')) return { kind: part.length > 1 ? 'all' : 'star' }
    return { kind: 'one', fits: characterMatcher(part) }
  })
}

function characterMatcher(part: string): (character: string) => boolean {
  if (part === '?') return (character) => character !== '/'
  if (part.length < 3 || !part.startsWith('[')) return (character) => character === part
  const isNegated = /^\[[!^]./u.test(part)
  const ranges = [...part.slice(isNegated ? 2 : 1, -1).matchAll(/(.)-(.)|./gu)]
  return (character) =>
    character !== '/' &&
    isNegated !==
      ranges.some(
        ([one, from = one, to = one]) =>
          codePoint(from) <= codePoint(character) && codePoint(character) <= codePoint(to),
      )
}

function codePoint(character: string): number {
  return character.codePointAt(0) ?? 0
}

/** Simulates the glob as a nondeterministic automaton, one character after another. */
function matchTokens(glob: readonly Token[], text: readonly string[]): boolean {
  let states = expandStates(glob, new Set([0]), true)
  for (const character of text) {
    const next = new Set<number>()
    for (const at of states) {
      const token = glob[at]
      if (token?.kind === 'one') {
        if (token.fits(character)) next.add(at + 1)
      } else if (token !== undefined && (token.kind !== 'star' || character !== '/')) next.add(at)
    }
    states = expandStates(glob, next, character === '/')
  }
  return states.has(glob.length)
}

/** Adds the states after tokens that match the empty text. */
function expandStates(glob: readonly Token[], states: Set<number>, isSegmentStart: boolean): Set<number> {
  for (const at of states) {
    const kind = glob[at]?.kind
    if (kind === 'star' || kind === 'all' || (kind === 'folders' && isSegmentStart)) states.add(at + 1)
  }
  return states
}
