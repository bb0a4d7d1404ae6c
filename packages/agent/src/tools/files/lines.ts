import { countOccurrences, truncateMiddle } from '../core/truncate.ts'

/** Number of lines; a final line end adds no empty line. */
export function countLines(text: string): number {
  return text === '' ? 0 : countOccurrences(text, '\n') + (text.endsWith('\n') ? 0 : 1)
}

/** Offset of a line, counted from 1; the end of the text for lines after the last. */
export function lineOffset(text: string, line: number): number {
  let at = 0
  for (let before = 1; before < line; before++) {
    const end = text.indexOf('\n', at)
    if (end === -1) return text.length
    at = end + 1
  }
  return at
}

/** The number, from 1, of the line at an offset. */
export function lineNumberAt(text: string, at: number): number {
  return countOccurrences(text.slice(0, at), '\n') + 1
}

/** The end of the line at an offset, or of the one before when it has none: in a file of several ends. */
export function lineEndAt(text: string, at: number): '\n' | '\r\n' {
  const next = text.indexOf('\n', at)
  const end = next === -1 ? text.lastIndexOf('\n') : next
  return end > 0 && text[end - 1] === '\r' ? '\r\n' : '\n'
}

/** A new text for a place of a file: with the line ends that are there, unless it has `\r\n` itself. */
export function withLineEndsAt(file: string, at: number, input: string): string {
  const isPlain = file.includes('\r\n') && !input.includes('\r\n')
  return isPlain ? input.replaceAll('\n', lineEndAt(file, at)) : input
}

/**
 * The lines from `first` to `last` (from 1, inclusive), prefixed by their numbers and `separator`; the middle
 * is omitted if too long. `hint`: how to see the omitted lines.
 */
export function numberLines(
  text: string,
  options: { first: number; last: number; maxChars: number; separator: string; hint: string },
): string {
  const { first, last, maxChars, separator, hint } = options
  const start = lineOffset(text, first)
  const end = lineOffset(text.slice(start), last - first + 2) + start
  const lines = text.slice(start, end)
  const numberPart = (part: string, from: number) =>
    part
      .replace(/\n$/, '')
      .split('\n')
      .map((line, at) => `${String(from + at).padStart(6)}${separator}${line}`)
      .join('\n')
  // Only the head and tail of a large text are numbered; both are longer than what is shown of them.
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

/** The lines around a change. `from` and `to` are offsets. */
export function snippetAround(
  text: string,
  { from, to, maxChars }: { from: number; to: number; maxChars: number },
): string {
  const around = 4
  const first = Math.max(1, lineNumberAt(text, from) - around)
  const last = Math.min(countLines(text), lineNumberAt(text, to) + around)
  const hint = 'View the file to see all of it.'
  return numberLines(text, { first, last, maxChars, separator: '\t', hint })
}

export function pluralize(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? '' : 's'}`
}

/** A file name for the model: one line without control characters, quoted when it had some. */
export function printableName(name: string): string {
  return /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/u.test(name)
    ? JSON.stringify(name).replace(
        /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
        (char) => `\\u${char.codePointAt(0)?.toString(16).padStart(4, '0')}`,
      )
    : name
}

/** A text for an event; null when it is too large as JSON. */
export function textForEvent(text: string | undefined): string | null {
  const maxBytes = 256 * 1024
  if (text === undefined || text.length > maxBytes) return null
  return Buffer.byteLength(JSON.stringify(text)) <= maxBytes ? text : null
}

/** The first values that fit into an event: at most `max`, and `maxBytes` bytes as JSON. */
export function limitForEvent<T>(values: readonly T[], max: number, maxBytes = 200 * 1024): T[] {
  let bytes = 0
  const end = values.findIndex((value, at) => {
    bytes += Buffer.byteLength(JSON.stringify(value))
    return at >= max || bytes > maxBytes
  })
  return end === -1 ? [...values] : values.slice(0, end)
}
