import { Refused } from '../core/file-access.ts'
import type { ToolAction } from '../core/tool.ts'
import { sameLineEnds, type Text } from './encoding.ts'
import { lineAt, lineCount, lineStart } from './lines.ts'

type Edit = Omit<ToolAction<'FileEditorAction'>, 'kind'>

/** A text after an edit. */
export interface Change {
  readonly text: string
  /** Where the new part is in the text. */
  readonly from: number
  readonly to: number
}

/** Puts new_str in the place of the only old_str. Rejects with Refused when it is not there once. */
export function replace({ path, old_str: old, new_str: given }: Edit, file: Text): Change {
  if (old == null || old === '') throw new Refused('str_replace needs old_str, the text to be replaced.')
  if (given == null) throw new Refused('str_replace needs new_str; an empty one removes old_str.')
  if (old === given) throw new Refused('old_str and new_str are the same, so nothing would change.')
  for (const [wanted, instead] of variants(old, given, file)) {
    const places = placesOf(file.text, wanted)
    const [from, ...more] = places
    if (from === undefined) continue
    if (more.length > 0) throw new Refused(ambiguous(path, file.text, places))
    const text = file.text.slice(0, from) + instead + file.text.slice(from + wanted.length)
    return { text, from, to: from + instead.length }
  }
  throw new Refused(
    `old_str does not occur in ${path}. It has to be there exactly, with its white space; view the file to see what is there.`,
  )
}

/** What to look for, in order: the text itself, with the other line ends, without the white space around it. */
function* variants(old: string, given: string, file: Text): Generator<readonly [old: string, given: string]> {
  const [wanted, instead] = [sameLineEnds(old, file), sameLineEnds(given, file)]
  yield [wanted, instead]
  if (file.text.includes('\r\n'))
    yield [wanted.replaceAll(/\r?\n/g, '\r\n'), instead.replaceAll(/\r?\n/g, '\r\n')]
  if (wanted.trim() !== '' && wanted.trim() !== instead.trim()) yield [wanted.trim(), instead.trim()]
}

const maxPlaces = 20

/** Where a text occurs, overlapping places too, as many as need to be told. */
function placesOf(text: string, part: string): number[] {
  const places: number[] = []
  for (let at = text.indexOf(part); at !== -1 && places.length <= maxPlaces; at = text.indexOf(part, at + 1))
    places.push(at)
  return places
}

function ambiguous(path: string, text: string, places: readonly number[]): string {
  const found = [...new Set(places.slice(0, maxPlaces).map((at) => lineAt(text, at)))]
  const more = places.length > maxPlaces ? ' and more' : ''
  return `old_str occurs more than once in ${path}, in lines ${found.join(', ')}${more}. Add lines around it, so that it occurs once.`
}

/** Puts new_str after a line. */
export function insert({ insert_line: line, new_str: given }: Edit, file: Text): Change {
  if (line == null) throw new Refused('insert needs insert_line, the line to insert after; 0 is the top.')
  if (given == null) throw new Refused('insert needs new_str, the text to be inserted.')
  const total = lineCount(file.text)
  if (line > total)
    throw new Refused(`insert_line is ${line}, but the file has lines 0 (the top) to ${total}.`)
  const from = lineStart(file.text, line + 1)
  const isAfterOpenLine = from > 0 && file.text[from - 1] !== '\n'
  const inserted = sameLineEnds(given, file)
  const end = file.text.includes('\r\n') ? '\r\n' : '\n'
  const part = isAfterOpenLine ? end + inserted : inserted.endsWith('\n') ? inserted : inserted + end
  return { text: file.text.slice(0, from) + part + file.text.slice(from), from, to: from + part.length - 1 }
}

/** The part of `after` that is not the same in `before`. */
export function difference(before: string, after: string): { from: number; to: number } {
  const max = Math.min(before.length, after.length)
  let from = 0
  while (from < max && before[from] === after[from]) from++
  let end = 0
  while (end < max - from && before[before.length - 1 - end] === after[after.length - 1 - end]) end++
  return { from, to: after.length - end }
}
