/**
 * Unicode simple case folding, code point by code point, without normalization: folded texts are equal
 * exactly when a regular expression with the flags `iu` matches one with the other. `ß` is not `ss`, the
 * final sigma is a sigma.
 */
export function foldCase(text: string): string {
  if (isAscii(text)) return text.toLowerCase()
  foldingTable ??= buildFoldingTable()
  let folded = ''
  for (const char of text) folded += foldingTable.get(char) ?? char
  return folded
}

/** The folding of each character that differs from it. */
let foldingTable: Map<string, string> | undefined

function isAscii(text: string): boolean {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: the range is ASCII, all of it
  return /^[\x00-\x7f]*$/.test(text)
}

/** No character above it has a case. */
const lastCased = 0x1ffff
const cased = /\p{Changes_When_Casemapped}|\p{Changes_When_Casefolded}/u

/**
 * Derived from the engine, so that it has the engine's version of Unicode: characters whose full mappings are
 * equal are candidates, and a regular expression decides.
 */
function buildFoldingTable(): Map<string, string> {
  const candidates = new Map<string, Folding[]>()
  const representatives = new Map<string, string>()
  for (let code = 0; code <= lastCased; code++) {
    const char = String.fromCodePoint(code)
    if (!cased.test(char)) continue
    const groupKey = char.toLowerCase().toUpperCase()
    const group = candidates.get(groupKey) ?? []
    candidates.set(groupKey, group)
    const known = group.find(({ pattern }) => pattern.test(char))
    const folding = known ?? createFolding(char)
    if (known === undefined) group.push(folding)
    if (folding.representative !== char) representatives.set(char, folding.representative)
  }
  return representatives
}

interface Folding {
  readonly pattern: RegExp
  readonly representative: string
}

/** The class of a character, represented by its lower case when that is in the class. */
function createFolding(char: string): Folding {
  const pattern = new RegExp(`^\\u{${char.codePointAt(0)?.toString(16)}}$`, 'iu')
  const lower = char.toLowerCase()
  return { pattern, representative: pattern.test(lower) ? lower : char }
}
