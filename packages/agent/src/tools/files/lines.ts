import { countOccurrences, truncateMiddle } from '../core/truncate.ts'

/** Lines of a text; one that ends with a line end has no empty line after it. */
export function countLines(text: string): number {
  return text === '' ? 0 : countOccurrences(text, '\n') + (text.endsWith('\n') ? 0 : 1)
}

/** Where a line begins, counted from 1; the end of the text for lines after the last. */
export function lineOffset(text: string, line: number): number {
  let at = 0
  for (let before = 1; before < line; before++) {
    const end = text.indexOf('\n', at)
    if (end === -1) return text.length
    at = end + 1
  }
  return at
}

/** The number of the line, from 1, that a place in the text belongs to. */
export function lineNumberAt(text: string, at: number): number {
  return countOccurrences(text.slice(0, at), '\n') + 1
}

interface NumberingOptions {
  /** First and last line, from 1, both shown. */
  readonly first: number
  readonly last: number
  readonly maxChars: number
  /** Between number and line. */
  readonly separator: string
  /** How to see the rest. */
  readonly hint: string
}

/** Lines of a text with their numbers in front; of too many the middle is left out. */
export function numberLines(
  text: string,
  { first, last, maxChars, separator, hint }: NumberingOptions,
): string {
  const start = lineOffset(text, first)
  const end = lineOffset(text.slice(start), last - first + 2) + start
  const lines = text.slice(start, end)
  const numberPart = (part: string, from: number) =>
    part
      .replace(/\n$/, '')
      .split('\n')
      .map((line, at) => `${String(from + at).padStart(6)}${separator}${line}`)
      .join('\n')
  // Of a large text only what can be shown gets numbers: both parts are longer than what the cut leaves of them.
  const part = 2 * maxChars
  const numberedLines =
    lines.length <= 2 * part
      ? numberPart(lines, first)
      : `${numberPart(lines.slice(0, part), first)}\n${numberPart(lines.slice(-part), lineNumberAt(lines, lines.length - part) + first - 1)}`
  return truncateMiddle(
    numberedLines,
    maxChars,
    ({ firstLine }) => `[Left out from line ${first + firstLine - 1} on. ${hint}]`,
  )
}

/** The lines around a change. `from` and `to` are places in the text. */
export function snippetAround(
  text: string,
  { from, to, maxChars }: { from: number; to: number; maxChars: number },
): string {
  const around = 4
  const first = Math.max(1, lineNumberAt(text, from) - around)
  const last = Math.min(countLines(text), lineNumberAt(text, to) + around)
  return numberLines(text, {
    first,
    last,
    maxChars,
    separator: '\t',
    hint: 'View the file to see all of it.',
  })
}

/** The name of a file as a model may read it: one line, without control characters, quoted when it had some. */
export function printableName(name: string): string {
  return /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u.test(name)
    ? JSON.stringify(name).replace(
        /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
        (char) => `\\u${char.codePointAt(0)?.toString(16).padStart(4, '0')}`,
      )
    : name
}

/** A text for an event, which has room for this much as JSON only; a longer one is left out. */
export function textForEvent(text: string | undefined): string | null {
  const maxBytes = 256 * 1024
  if (text === undefined || text.length > maxBytes) return null
  return Buffer.byteLength(JSON.stringify(text)) <= maxBytes ? text : null
}

/** The first of some values that have room in an event together: at most this many, and this many bytes as JSON. */
export function limitForEvent<T>(values: readonly T[], max: number, maxBytes = 200 * 1024): T[] {
  let bytes = 0
  const end = values.findIndex((value, at) => {
    bytes += Buffer.byteLength(JSON.stringify(value))
    return at >= max || bytes > maxBytes
  })
  return end === -1 ? [...values] : values.slice(0, end)
}
