import type { ToolAction } from '../core/tool.ts'
import { ToolError } from '../core/tool-failure.ts'
import { normalizeLineEnds, type TextFile } from './encoding.ts'
import { countLines, lineEndAt, lineNumberAt, lineOffset, withLineEndsAt } from './lines.ts'
import { type EditPlace, findSimilarLines, type Tolerance } from './match-lines.ts'
import { nearestLines } from './nearest-lines.ts'

type EditCommand = Omit<ToolAction<'FileEditorAction'>, 'kind'>

/** A text after an edit. */
interface TextChange {
  readonly text: string
  /** Offsets of the new part. */
  readonly from: number
  readonly to: number
  /** How the match was not exact, for the model. */
  readonly note: string
}

/**
 * Replaces the only old_str, or each of them, by new_str: exact matches, else whole lines that are similar.
 * Throws ToolError when there is none, or more than the only one.
 */
export function replaceText(
  { path, old_str: oldText, new_str: newText }: EditCommand,
  file: TextFile,
  replacesAll = false,
): TextChange {
  if (oldText == null || oldText === '')
    throw new ToolError('str_replace needs old_str, the text to be replaced.')
  if (newText == null) throw new ToolError('str_replace needs new_str; an empty one removes old_str.')
  if (oldText === newText) throw new ToolError('old_str and new_str are the same, so nothing would change.')
  const [search, replacement] = [normalizeLineEnds(oldText, file), normalizeLineEnds(newText, file)]
  const exact = replacesAll
    ? exactPlaces(file.text, search, replacement)
    : findOffsets(file.text, search).map((from) => exactPlace(file.text, from, search, replacement))
  const { places, tolerated } =
    exact.length > 0 ? { places: exact, tolerated: [] } : findSimilarLines(file.text, search, replacement)
  const [place, ...others] = places
  if (place === undefined)
    throw new ToolError(
      `old_str does not occur in ${path}. It has to be there exactly, with its white space.${nearestLines(file.text, search)}`,
    )
  if (others.length > 0 && !replacesAll)
    throw new ToolError(
      `old_str occurs more than once in ${path}, in ${describeLines(file.text, places)}. Add lines around it, so that it occurs once, or set replace_all.`,
    )
  const text = replacePlaces(file.text, places)
  if (tolerated.length > 0 && text === file.text)
    throw new ToolError(
      `old_str differs from ${path} only in ${tolerated.join(', ')}, and with new_str nothing would change.`,
    )
  const count = replacesAll
    ? `\n[${places.length} places were changed; the lines are those of the first.]`
    : ''
  const note = count + toleranceNote(tolerated)
  return { text, from: place.from, to: place.from + place.replacement.length, note }
}

/** The places of a text, one after the other. */
export function exactPlaces(text: string, search: string, replacement: string): EditPlace[] {
  const places: EditPlace[] = []
  for (let at = text.indexOf(search); at !== -1; at = text.indexOf(search, at + search.length))
    places.push(exactPlace(text, at, search, replacement))
  return places
}

function exactPlace(text: string, from: number, search: string, replacement: string): EditPlace {
  return { from, to: from + search.length, replacement: withLineEndsAt(text, from, replacement) }
}

/** The text with its places replaced. Throws ToolError when they overlap. */
export function replacePlaces(text: string, places: readonly EditPlace[]): string {
  const parts: string[] = []
  let end = 0
  for (const { from, to, replacement } of places) {
    if (from < end) throw new ToolError('The places of the old text overlap. Add lines around it.')
    parts.push(text.slice(end, from), replacement)
    end = to
  }
  return parts.join('') + text.slice(end)
}

/** Tells the model how a match was not exact; empty when it was. */
export function toleranceNote(tolerated: readonly Tolerance[]): string {
  return tolerated.length === 0
    ? ''
    : `\n[The old text was found with other ${tolerated.join(', ')}; the new text was adapted to the file.]`
}

const maxReportedOffsets = 20

/** Offsets of a text, overlapping ones too, up to one above the reported number. */
export function findOffsets(text: string, part: string): number[] {
  const offsets: number[] = []
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) {
    offsets.push(at)
    if (offsets.length > maxReportedOffsets) break
  }
  return offsets
}

/** `lines 1, 3`, up to twenty. */
export function describeLines(text: string, places: readonly Pick<EditPlace, 'from'>[]): string {
  const reported = places.slice(0, maxReportedOffsets).map(({ from }) => lineNumberAt(text, from))
  const suffix = places.length > maxReportedOffsets ? ' and more' : ''
  return `lines ${[...new Set(reported)].join(', ')}${suffix}`
}

/** Inserts new_str after a line. */
export function insertAfterLine(
  { insert_line: line, new_str: newText }: EditCommand,
  file: TextFile,
): TextChange {
  if (line == null) throw new ToolError('insert needs insert_line, the line to insert after; 0 is the top.')
  if (newText == null) throw new ToolError('insert needs new_str, the text to be inserted.')
  const total = countLines(file.text)
  if (line > total)
    throw new ToolError(`insert_line is ${line}, but the file has lines 0 (the top) to ${total}.`)
  const from = lineOffset(file.text, line + 1)
  const isAfterOpenLine = from > 0 && file.text[from - 1] !== '\n'
  const inserted = withLineEndsAt(file.text, Math.max(0, from - 1), normalizeLineEnds(newText, file))
  const end = lineEndAt(file.text, Math.max(0, from - 1))
  const insertedText = isAfterOpenLine ? end + inserted : inserted.endsWith('\n') ? inserted : inserted + end
  const text = file.text.slice(0, from) + insertedText + file.text.slice(from)
  return { text, from, to: from + insertedText.length - 1, note: '' }
}

/** The range of `after` that differs from `before`. */
export function changedRange(before: string, after: string): { from: number; to: number } {
  const max = Math.min(before.length, after.length)
  let from = 0
  while (from < max && before[from] === after[from]) from++
  let end = 0
  while (end < max - from && before[before.length - 1 - end] === after[after.length - 1 - end]) end++
  return { from, to: after.length - end }
}
