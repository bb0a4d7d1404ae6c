import type { ToolAction } from '../core/tool.ts'
import { ToolFailure } from '../core/tool-failure.ts'
import { normalizeLineEnds, type TextFile } from './encoding.ts'
import { countLines, lineNumberAt, lineOffset } from './lines.ts'

type EditCommand = Omit<ToolAction<'FileEditorAction'>, 'kind'>

/** A text after an edit. */
interface TextChange {
  readonly text: string
  /** Offsets of the new part. */
  readonly from: number
  readonly to: number
}

/** Replaces the only old_str by new_str. Throws ToolFailure when it does not occur exactly once. */
export function replaceUnique(
  { path, old_str: oldText, new_str: newText }: EditCommand,
  file: TextFile,
): TextChange {
  if (oldText == null || oldText === '')
    throw new ToolFailure('str_replace needs old_str, the text to be replaced.')
  if (newText == null) throw new ToolFailure('str_replace needs new_str; an empty one removes old_str.')
  if (oldText === newText) throw new ToolFailure('old_str and new_str are the same, so nothing would change.')
  for (const [search, replacement] of searchVariants(oldText, newText, file)) {
    const offsets = findOffsets(file.text, search)
    const [from, ...others] = offsets
    if (from === undefined) continue
    if (others.length > 0) throw new ToolFailure(ambiguousMessage(path, file.text, offsets))
    const text = file.text.slice(0, from) + replacement + file.text.slice(from + search.length)
    return { text, from, to: from + replacement.length }
  }
  throw new ToolFailure(
    `old_str does not occur in ${path}. It has to be there exactly, with its white space; view the file to see what is there.`,
  )
}

/** Search texts in order: the text itself, with the other line ends, without surrounding white space. */
function* searchVariants(
  oldText: string,
  newText: string,
  file: TextFile,
): Generator<readonly [search: string, replacement: string]> {
  const [search, replacement] = [normalizeLineEnds(oldText, file), normalizeLineEnds(newText, file)]
  yield [search, replacement]
  if (file.text.includes('\r\n'))
    yield [search.replaceAll(/\r?\n/g, '\r\n'), replacement.replaceAll(/\r?\n/g, '\r\n')]
  if (search.trim() !== '' && search.trim() !== replacement.trim()) yield [search.trim(), replacement.trim()]
}

const maxReportedOffsets = 20

/** Offsets of a text, overlapping ones too, up to one above the reported number. */
function findOffsets(text: string, part: string): number[] {
  const offsets: number[] = []
  for (let at = text.indexOf(part); at !== -1; at = text.indexOf(part, at + 1)) {
    offsets.push(at)
    if (offsets.length > maxReportedOffsets) break
  }
  return offsets
}

function ambiguousMessage(path: string, text: string, offsets: readonly number[]): string {
  const lineNumbers = [...new Set(offsets.slice(0, maxReportedOffsets).map((at) => lineNumberAt(text, at)))]
  const suffix = offsets.length > maxReportedOffsets ? ' and more' : ''
  return `old_str occurs more than once in ${path}, in lines ${lineNumbers.join(', ')}${suffix}. Add lines around it, so that it occurs once.`
}

/** Inserts new_str after a line. */
export function insertAfterLine(
  { insert_line: line, new_str: newText }: EditCommand,
  file: TextFile,
): TextChange {
  if (line == null) throw new ToolFailure('insert needs insert_line, the line to insert after; 0 is the top.')
  if (newText == null) throw new ToolFailure('insert needs new_str, the text to be inserted.')
  const total = countLines(file.text)
  if (line > total)
    throw new ToolFailure(`insert_line is ${line}, but the file has lines 0 (the top) to ${total}.`)
  const from = lineOffset(file.text, line + 1)
  const isAfterOpenLine = from > 0 && file.text[from - 1] !== '\n'
  const inserted = normalizeLineEnds(newText, file)
  const end = file.text.includes('\r\n') ? '\r\n' : '\n'
  const insertedText = isAfterOpenLine ? end + inserted : inserted.endsWith('\n') ? inserted : inserted + end
  const text = file.text.slice(0, from) + insertedText + file.text.slice(from)
  return { text, from, to: from + insertedText.length - 1 }
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
