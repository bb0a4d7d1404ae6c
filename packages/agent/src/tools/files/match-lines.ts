/**
 * Finds the place of an edit whose old text does not stand in the file exactly.
 *
 * Problem: models copy text inexactly: other indentation, blanks at the ends of lines, CRLF, typographic
 * quotes and dashes. Refusing such an edit costs a step. Accepting too much changes the wrong place, or
 * breaks the indentation of the file.
 *
 * Idea: whole lines are compared by a key, the body of the line with one form of each typographic character.
 * Indentation is compared as a structure. The new text is then adapted: what it has in common with the old
 * one stays as it is in the file, so the edit changes what the model meant and nothing else.
 *
 * Invariants:
 * - The callers look for the exact text first, and count the places: this file returns all of them.
 * - An old text of blank lines matches nowhere (`findLines`: no anchor).
 * - Equal indentation matches equal, deeper matches deeper, and all lines have one shift (`matchingIndents`,
 *   `hasOneShift`): the structure is the same.
 * - `plainCharacters` replaces one character by one, so an offset in a key is an offset in the body:
 *   `changedLine` cuts the file's line at offsets of the old text.
 * - An indentation that could be read in two ways is a ToolError, not a guess (`adaptIndentation`).
 * - A place is a range of whole lines. It includes its last line end only if the old text ends with one
 *   (`replaceLines`).
 * - Aligning takes time and memory by the product of the numbers of lines; above `maxAlignment` lines are
 *   paired without it.
 *
 * If you change this: an edit that succeeds and is wrong, which a model does not notice. The property test in
 * `match-lines.test.ts` compares careless edits with what they mean.
 */

import { adaptIndentation, hasOneShift } from './adapt-indentation.ts'

/** A place in a file where an old text stands, and what comes there instead. */
export interface EditPlace {
  /** Offsets in the text of the file. */
  readonly from: number
  readonly to: number
  readonly replacement: string
}

interface FoundPlaces {
  /** In order. */
  readonly places: readonly EditPlace[]
  /** In what the old text differs from the places. */
  readonly tolerated: readonly Tolerance[]
}

export type Tolerance = 'indentation' | 'trailing blanks' | 'line ends' | 'quotes, dashes or special blanks'

/** Larger products of line numbers are not aligned. */
const maxAlignment = 4_000_000

/**
 * The places of a text that does not stand in a file exactly: ranges of whole lines that differ from it only
 * in the style of indentation, trailing blanks, line ends and typographic characters.
 */
export function findSimilarLines(text: string, oldText: string, newText: string): FoundPlaces {
  const old = splitText(oldText)
  // After an old text without a final line end, that of the new one begins a blank line.
  const edit = { old, new: old.isEnded ? splitText(newText) : splitWhole(newText) }
  const file = fileLines(text)
  const found = findLines(text, file, edit)
  return found.places.length > 0 ? found : findLines(text, file, withoutCommonBlankLines(edit))
}

interface FileLine extends Line {
  readonly from: number
  /** `\n`, `\r\n`, or empty at the end of the file. */
  readonly end: string
}

/** A line without its end. */
interface Line {
  readonly text: string
  /** Spaces and tabs before the body; empty when there is no body. */
  readonly indent: string
  readonly body: string
  /** The body with one form of each typographic character. */
  readonly key: string
  readonly trail: string
}

interface TextLines {
  readonly lines: readonly Line[]
  /** Whether the last line has an end. */
  readonly isEnded: boolean
}

interface LineEdit {
  readonly old: TextLines
  readonly new: TextLines
}

function splitLine(text: string): Line {
  const rest = text.trimEnd()
  const body = rest.replace(/^[ \t]+/, '')
  const indent = rest.slice(0, rest.length - body.length)
  return { text, indent, body, key: plainCharacters(body), trail: text.slice(rest.length) }
}

function splitText(text: string): TextLines {
  const whole = splitWhole(text)
  return text.endsWith('\n') ? { lines: whole.lines.slice(0, -1), isEnded: true } : whole
}

function splitWhole(text: string): TextLines {
  return { lines: text.split(/\r?\n/).map(splitLine), isEnded: false }
}

function fileLines(text: string): FileLine[] {
  const lines: FileLine[] = []
  for (const match of text.matchAll(/([^\n]*?)(\r?\n|$)/g)) {
    const [all, line = '', end = ''] = match
    if (all !== '') lines.push({ ...splitLine(line), from: match.index, end })
  }
  return lines
}

/** Drops the blank lines at the beginning and end that both texts have. */
function withoutCommonBlankLines({ old, new: added }: LineEdit): LineEdit {
  const isBlank = (lines: TextLines, at: number) => lines.lines.at(at)?.body === ''
  let [start, end] = [0, 0]
  while (isBlank(old, start) && isBlank(added, start)) start++
  while (isBlank(old, -1 - end) && isBlank(added, -1 - end)) end++
  const cut = ({ lines, isEnded }: TextLines) => ({
    lines: lines.slice(start, Math.max(start, lines.length - end)),
    isEnded: isEnded || end > 0,
  })
  return { old: cut(old), new: cut(added) }
}

function findLines(text: string, file: readonly FileLine[], edit: LineEdit): FoundPlaces {
  const { lines } = edit.old
  const anchor = lines.findIndex(({ body }) => body !== '')
  const key = lines[anchor]?.key
  if (key === undefined) return { places: [], tolerated: [] }
  const places: EditPlace[] = []
  const tolerated = new Set<Tolerance>()
  for (let at = 0; at + lines.length <= file.length; at++) {
    // The first line with a body is compared first: most places fail there.
    if (file[at + anchor]?.key !== key) continue
    const found = file.slice(at, at + lines.length)
    const indents = matchingIndents(lines, found)
    if (indents === undefined) continue
    places.push(replaceLines(text, found, edit, indents))
    for (const one of differences(lines, found)) tolerated.add(one)
    if (found.some(({ end }) => end === '\r\n')) tolerated.add('line ends')
  }
  return { places, tolerated: [...tolerated] }
}

/** The indentation of the file by that of the old text; undefined when the lines do not match. */
function matchingIndents(
  lines: readonly Line[],
  found: readonly FileLine[],
): ReadonlyMap<string, string> | undefined {
  const indents = new Map<string, string>()
  const reverse = new Map<string, string>()
  for (const [at, line] of lines.entries()) {
    const other = found[at]
    if (other?.key !== line.key) return undefined
    if (line.body === '') continue
    if ((indents.get(line.indent) ?? other.indent) !== other.indent) return undefined
    if ((reverse.get(other.indent) ?? line.indent) !== line.indent) return undefined
    indents.set(line.indent, other.indent)
    reverse.set(other.indent, line.indent)
  }
  const pairs = [...indents].sort(([a], [b]) => indentWidth(a) - indentWidth(b))
  const isOrdered = pairs.every(
    ([, inFile], at) => at === 0 || indentWidth(pairs[at - 1]?.[1] ?? '') < indentWidth(inFile),
  )
  return isOrdered && hasOneShift(indents) ? indents : undefined
}

function indentWidth(indent: string): number {
  let width = 0
  for (const char of indent) width += char === '\t' ? 8 - (width % 8) : 1
  return width
}

function differences(lines: readonly Line[], found: readonly FileLine[]): Tolerance[] {
  const has = (isOther: (line: Line, other: FileLine) => boolean) =>
    lines.some((line, at) => {
      const other = found[at]
      return other !== undefined && isOther(line, other)
    })
  return [
    ...(has((line, other) => line.indent !== other.indent) ? (['indentation'] as const) : []),
    ...(has((line, other) => line.trail !== other.trail) ? (['trailing blanks'] as const) : []),
    ...(has((line, other) => line.body !== other.body)
      ? (['quotes, dashes or special blanks'] as const)
      : []),
  ]
}

function replaceLines(
  text: string,
  found: readonly FileLine[],
  { old, new: added }: LineEdit,
  indents: ReadonlyMap<string, string>,
): EditPlace {
  const first = found[0]
  const last = found.at(-1)
  if (first === undefined || last === undefined) throw new Error('A place has no lines.')
  const adapt = adaptIndentation(indents, {
    text: [...old.lines, ...added.lines].flatMap(({ indent, body }) => (body === '' ? [] : [indent])),
    file: text,
  })
  const characters = characterMap(old.lines, found)
  const partners = alignLines(old.lines, added.lines)
  const commonEnd = text.includes('\r\n') ? (first.end === '' ? '\r\n' : first.end) : '\n'
  let end = commonEnd
  const parts = added.lines.map((line, at) => {
    const partner = partners[at]
    const pair =
      partner === undefined
        ? undefined
        : { old: old.lines[partner] as Line, file: found[partner] as FileLine }
    if (pair !== undefined && pair.file.end !== '') end = pair.file.end
    const written =
      pair === undefined ? newLine(line, adapt, characters) : changedLine(line, pair, adapt, characters)
    const isLast = at === added.lines.length - 1
    return isLast ? written : written + end
  })
  const endOfPlace = last.from + last.text.length + (old.isEnded ? last.end.length : 0)
  // A file without a final line end does not get one by a match of its last line.
  const finalEnd = old.isEnded ? last.end : commonEnd
  return {
    from: first.from,
    to: endOfPlace,
    replacement: parts.join('') + (added.isEnded && parts.length > 0 ? finalEnd : ''),
  }
}

function newLine(
  line: Line,
  adapt: (indent: string) => string,
  characters: ReadonlyMap<string, string>,
): string {
  return line.body === '' ? line.text : adapt(line.indent) + mapCharacters(line.body, characters) + line.trail
}

/** A new line in the place of an old one: what both have in common stays as in the file. */
function changedLine(
  line: Line,
  { old, file }: { readonly old: Line; readonly file: FileLine },
  adapt: (indent: string) => string,
  characters: ReadonlyMap<string, string>,
): string {
  const [a, b] = [old.body, line.body]
  if ((a === '') !== (b === '')) return newLine(line, adapt, characters)
  const max = Math.min(a.length, b.length)
  let start = 0
  while (start < max && a[start] === b[start]) start++
  let end = 0
  while (end < max - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end++
  const body =
    file.body.slice(0, start) +
    mapCharacters(b.slice(start, b.length - end), characters) +
    file.body.slice(file.body.length - end)
  const indent = line.indent === old.indent ? file.indent : adapt(line.indent)
  return indent + body + (line.trail === old.trail ? file.trail : line.trail)
}

/** Indexes of the old lines that stay or change into the new ones; undefined for added lines. */
function alignLines(old: readonly Line[], added: readonly Line[]): (number | undefined)[] {
  const isSame = (a: number, b: number) => old[a]?.text === added[b]?.text
  const partners: (number | undefined)[] = added.map(() => undefined)
  let start = 0
  while (start < Math.min(old.length, added.length) && isSame(start, start)) partners[start] = start++
  let [oldEnd, newEnd] = [old.length, added.length]
  while (oldEnd > start && newEnd > start && isSame(oldEnd - 1, newEnd - 1)) partners[--newEnd] = --oldEnd
  const anchors = [...longestCommonLines([start, oldEnd], [start, newEnd], isSame), [oldEnd, newEnd] as const]
  // Between lines that stay, lines are changed in order.
  let [oldAt, newAt] = [start, start]
  for (const [oldAnchor, newAnchor] of anchors) {
    for (; oldAt < oldAnchor && newAt < newAnchor; oldAt++, newAt++) partners[newAt] = oldAt
    if (newAnchor < newEnd) partners[newAnchor] = oldAnchor
    ;[oldAt, newAt] = [oldAnchor + 1, newAnchor + 1]
  }
  return partners
}

type Range = readonly [from: number, to: number]

function longestCommonLines(
  [oldFrom, oldTo]: Range,
  [newFrom, newTo]: Range,
  isSame: (a: number, b: number) => boolean,
): Range[] {
  const [rows, columns] = [oldTo - oldFrom, newTo - newFrom]
  if (rows * columns === 0 || rows * columns > maxAlignment) return []
  const width = columns + 1
  const lengths = new Uint32Array((rows + 1) * width)
  const lengthAt = (row: number, column: number) => lengths[row * width + column] ?? 0
  for (let row = rows - 1; row >= 0; row--)
    for (let column = columns - 1; column >= 0; column--)
      lengths[row * width + column] = isSame(oldFrom + row, newFrom + column)
        ? lengthAt(row + 1, column + 1) + 1
        : Math.max(lengthAt(row + 1, column), lengthAt(row, column + 1))
  const pairs: Range[] = []
  for (let row = 0, column = 0; row < rows && column < columns; ) {
    if (isSame(oldFrom + row, newFrom + column)) pairs.push([oldFrom + row++, newFrom + column++])
    else if (lengthAt(row + 1, column) >= lengthAt(row, column + 1)) row++
    else column++
  }
  return pairs
}

const plainForms: readonly (readonly [RegExp, string])[] = [
  [/[\u2018\u2019\u201a\u201b\u2032]/g, "'"],
  [/[\u201c\u201d\u201e\u201f\u2033]/g, '"'],
  [/[\u2010-\u2015\u2212]/g, '-'],
  [/[\u00a0\u2000-\u200a\u202f\u205f\u3000]/g, ' '],
]

/** Each typographic quote, dash and blank as its ASCII form of the same length. */
export function plainCharacters(text: string): string {
  return /^[\0-\x7f]*$/.test(text)
    ? text
    : plainForms.reduce((done, [form, plain]) => done.replace(form, plain), text)
}

/** Characters of the old text that are always the same other one in the file. */
function characterMap(lines: readonly Line[], found: readonly FileLine[]): ReadonlyMap<string, string> {
  const forms = new Map<string, Set<string>>()
  for (const [at, { body }] of lines.entries()) {
    const other = found[at]?.body ?? ''
    for (let index = 0; index < body.length; index++) {
      const char = body[index] ?? ''
      const form = other[index] ?? ''
      if (plainCharacters(form) === plainCharacters(char))
        forms.set(char, (forms.get(char) ?? new Set()).add(form))
    }
  }
  const single = [...forms].flatMap(([char, [form, ...more]]) =>
    form !== undefined && form !== char && more.length === 0 ? [[char, form] as const] : [],
  )
  return new Map(single)
}

function mapCharacters(text: string, characters: ReadonlyMap<string, string>): string {
  if (characters.size === 0) return text
  return Array.from(text, (char) => characters.get(char) ?? char).join('')
}
