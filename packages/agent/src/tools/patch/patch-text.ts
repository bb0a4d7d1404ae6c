import { ToolError } from '../core/tool-failure.ts'
import { lineOffset, withLineEndsAt } from '../files/lines.ts'
import { findSimilarLines, type Tolerance } from '../files/match-lines.ts'
import { nearestLines } from '../files/nearest-lines.ts'
import type { Hunk } from './parse-patch.ts'

interface PatchedText {
  readonly text: string
  /** In what the places differed from the patch. */
  readonly tolerated: readonly Tolerance[]
}

/**
 * The text of a file after the hunks of a patch, in order: each is applied at the first place after the one
 * before where its lines stand exactly, or at the one that is nearest to its number; else at the only place
 * where similar ones stand. The result ends with a line end, unless the last hunk says otherwise. Throws
 * ToolError for a hunk without a place.
 */
export function patchText(path: string, text: string, hunks: readonly Hunk[]): PatchedText {
  let current = text === '' || text.endsWith('\n') || hunks.length === 0 ? text : `${text}\n`
  let from = 0
  /** Lines that the hunks before have added. */
  let added = 0
  const tolerated = new Set<Tolerance>()
  for (const hunk of hunks) {
    const start = afterHeaders(path, current, hunk, from)
    const expected = hunk.line === undefined ? undefined : lineOffset(current, hunk.line + added)
    const place = findHunk(path, current, { ...hunk, expected }, start)
    for (const one of place.tolerated) tolerated.add(one)
    current = current.slice(0, place.from) + place.replacement + current.slice(place.to)
    from = place.from + place.replacement.length
    added += hunk.newLines.length - hunk.oldLines.length
  }
  if (hunks.at(-1)?.isOpen) current = current.replace(/\r?\n$/, '')
  return { text: current, tolerated: [...tolerated] }
}

interface HunkPlace {
  readonly from: number
  readonly to: number
  readonly replacement: string
  readonly tolerated: readonly Tolerance[]
}

/** The offset after the last header line. */
function afterHeaders(path: string, text: string, { headers }: Hunk, from: number): number {
  let at = from
  for (const header of headers) {
    const exact = lineOffsets(text, at, (line) => line === header)
    const [found = lineOffsets(text, at, (line) => line.trim() === header.trim())[0]] = exact
    if (found === undefined)
      throw new ToolError(`The line ${JSON.stringify(header)} after @@ does not occur in ${path}.`)
    at = lineEnd(text, found)
  }
  return at
}

/** `expected`: the offset of its line, if that is known. */
type PlacedHunk = Hunk & { readonly expected: number | undefined }

function findHunk(path: string, text: string, hunk: PlacedHunk, from: number): HunkPlace {
  const oldText = joinLines(hunk.oldLines)
  const replacement = joinLines(hunk.newLines)
  const place = (at: number) => ({
    ...{ from: at, to: at + oldText.length, tolerated: [] },
    replacement: withLineEndsAt(text, Math.max(0, oldText === '' ? at - 1 : at), replacement),
  })
  const { expected } = hunk
  if (oldText === '') {
    // The number is that of the line before.
    if (expected !== undefined) return place(hunk.line === 0 ? 0 : Math.max(from, lineEnd(text, expected)))
    return place(hunk.headers.length === 0 || hunk.isAtEnd ? text.length : from)
  }
  const exact = hunk.isAtEnd ? lastPlace(text, oldText, from) : nearestPlace(text, oldText, from, expected)
  if (exact !== undefined) return place(exact)
  const { places, tolerated } = findSimilarLines(text.slice(from), oldText, replacement)
  const possible = hunk.isAtEnd ? places.filter(({ to }) => from + to === text.length) : places
  const stated = possible.find((one) => from + one.from === expected)
  const [similar, ...others] = stated === undefined ? possible : [stated]
  if (similar === undefined)
    throw new ToolError(`These lines do not occur in ${path}:\n${oldText}${nearestLines(text, oldText)}`)
  if (others.length > 0)
    throw new ToolError(
      `Lines like these occur more than once in ${path}. Add lines, or @@ with a line before:\n${oldText}`,
    )
  return { from: from + similar.from, to: from + similar.to, replacement: similar.replacement, tolerated }
}

/** The first offset of whole lines, or the one that is nearest to the expected one. */
function nearestPlace(text: string, lines: string, from: number, expected = from): number | undefined {
  let nearest: number | undefined
  for (let at = text.indexOf(lines, from); at !== -1; at = text.indexOf(lines, at + 1)) {
    if (at !== 0 && text[at - 1] !== '\n') continue
    if (nearest !== undefined && Math.abs(at - expected) >= Math.abs(nearest - expected)) break
    nearest = at
  }
  return nearest
}

/** The offset of whole lines at the end. */
function lastPlace(text: string, lines: string, from: number): number | undefined {
  const at = text.length - lines.length
  return at >= from && text.endsWith(lines) && (at === 0 || text[at - 1] === '\n') ? at : undefined
}

function lineOffsets(text: string, from: number, isMatch: (line: string) => boolean): number[] {
  for (let at = from; at < text.length; at = lineEnd(text, at))
    if (isMatch(text.slice(at, lineEnd(text, at)).replace(/\r?\n$/, ''))) return [at]
  return []
}

/** The offset after the line end of the line at an offset. */
function lineEnd(text: string, at: number): number {
  const end = text.indexOf('\n', at)
  return end === -1 ? text.length : end + 1
}

function joinLines(lines: readonly string[]): string {
  return lines.map((line) => `${line}\n`).join('')
}
