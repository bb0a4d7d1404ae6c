import { plainCharacters } from './match-lines.ts'

/** Longer texts are not searched. */
const maxChars = 4_000_000
const maxShownLines = 12
const maxShownChars = 200
const maxDifferences = 5
/** A line with more places than this, as `}`, says nothing about the place of the others. */
const maxPlaces = 50
/** Shares of equal pairs of letters below this are chance. */
const minSimilarity = 0.5

/**
 * For the message of an edit whose old text does not occur in a file: the lines that are nearest to it, with
 * their numbers, and what differs. Empty when no line is near.
 */
export function nearestLines(text: string, oldText: string): string {
  if (text.length > maxChars || oldText.length > maxChars) return ''
  const copied = withoutNumbers(oldText.replace(/\r?\n$/, '').split(/\r?\n/))
  const numbersNote = copied.hasNumbers
    ? '\nThe old text has the line numbers of a view, which are not part of the file: leave them out.'
    : ''
  const old = copied.lines
  const file = text
    .replace(/\n$/, '')
    .split('\n')
    .map((line) => line.replace(/\r$/, ''))
  const start = nearestStart(file, old)
  if (start === undefined) return numbersNote
  const [first, end] = [Math.max(0, start), Math.min(file.length, start + old.length)]
  const shown = file
    .slice(first, Math.min(end, first + maxShownLines))
    .map((line, at) => `${String(first + at + 1).padStart(6)}\t${excerpt(line)}`)
  const differing = old.flatMap((line, at) => describe(line, file[start + at], start + at + 1))
  const more =
    differing.length > maxDifferences ? [`${differing.length - maxDifferences} more lines differ.`] : []
  const heading =
    end - first === 1 ? `The nearest line is ${first + 1}:` : `The nearest lines are ${first + 1} to ${end}:`
  return [numbersNote, heading, ...shown, ...differing.slice(0, maxDifferences), ...more].join('\n')
}

/** The lines without the numbers of a view, if each has the next number. */
function withoutNumbers(lines: readonly string[]): { lines: readonly string[]; hasNumbers: boolean } {
  const parts = lines.map((line) => /^\s*(\d+)(?:\t| {2}|: ?| ?\| ?)(.*)$/.exec(line))
  const first = Number(parts[0]?.[1])
  const hasNumbers = parts.every((part, at) => part !== null && Number(part[1]) === first + at)
  return { lines: hasNumbers ? parts.map((part) => part?.[2] ?? '') : lines, hasNumbers }
}

/** The index of the file's line that is nearest to the first old one; it may lie before the first line. */
function nearestStart(file: readonly string[], old: readonly string[]): number | undefined {
  const keys = old.map(looseKey)
  const places = new Map<string, number[]>()
  const fileKeys = file.map(looseKey)
  for (const [at, key] of fileKeys.entries())
    places.set(key, [...(places.get(key) ?? []).slice(0, maxPlaces), at])
  const votes = new Map<number, number>()
  for (const [at, key] of keys.entries()) {
    const found = key === '' ? [] : (places.get(key) ?? [])
    if (found.length > maxPlaces) continue
    for (const place of found) votes.set(place - at, (votes.get(place - at) ?? 0) + Math.min(key.length, 40))
  }
  const [best] = [...votes].sort(([startA, a], [startB, b]) => b - a || startA - startB)
  if (best !== undefined) return best[0]
  const longest = keys.reduce((most, key, at) => (key.length > (keys[most]?.length ?? 0) ? at : most), 0)
  const similar = mostSimilar(fileKeys, keys[longest] ?? '')
  return similar === undefined ? undefined : similar - longest
}

function mostSimilar(lines: readonly string[], key: string): number | undefined {
  if (key.length < 2) return undefined
  const pairs = pairsOf(key)
  let best: { readonly at: number; readonly share: number } | undefined
  for (const [at, line] of lines.entries()) {
    if (line.length < 2) continue
    // A part of a line is like the line.
    const share = line.includes(key) ? 1 : similarity(pairs, key.length - 1, line)
    if (share >= minSimilarity && share > (best?.share ?? 0)) best = { at, share }
  }
  return best?.at
}

function pairsOf(text: string): Map<string, number> {
  const pairs = new Map<string, number>()
  for (let at = 0; at < text.length - 1; at++) {
    const pair = text.slice(at, at + 2)
    pairs.set(pair, (pairs.get(pair) ?? 0) + 1)
  }
  return pairs
}

/** The share of pairs of letters that both have (Dice). */
function similarity(pairs: ReadonlyMap<string, number>, count: number, line: string): number {
  // The shares of much longer and shorter lines are small.
  if (line.length > 4 * (count + 1) || 4 * line.length < count) return 0
  let common = 0
  for (const [pair, times] of pairsOf(line)) common += Math.min(times, pairs.get(pair) ?? 0)
  return (2 * common) / (count + line.length - 1)
}

/** What a reader takes for the same has the same key. */
function looseKey(line: string): string {
  return plainCharacters(line)
    .normalize('NFC')
    .replaceAll(/[\s\p{Cf}]/gu, '')
    .toLowerCase()
}

type Form = (line: string) => string

const withoutInvisible: Form = (line) => line.replaceAll(/\p{Cf}/gu, '')

/** What two lines differ in when these forms of them are equal. */
const reasons: readonly (readonly [form: Form, reason: (old: string, file: string) => string])[] = [
  [withoutInvisible, (old, file) => invisibleCharacters(old, file)],
  [(line) => line.trimEnd(), () => 'blanks at the end'],
  [
    (line) => line.trim(),
    (old, file) => `indentation (${indentOf(file)} in the file, ${indentOf(old)} in the old text)`,
  ],
  [(line) => line.replaceAll(/\s/g, ''), () => 'white space'],
  [(line) => line.normalize('NFC'), () => 'characters of another composition (Unicode normal form)'],
  [plainCharacters, (old, file) => `quotes, dashes or special blanks (${firstDifference(old, file)})`],
  [(line) => line.toLowerCase(), () => 'upper and lower case'],
  [looseKey, (old, file) => `white space, quotes or case (${firstDifference(old.trim(), file.trim())})`],
]

function describe(old: string, file: string | undefined, number: number): string[] {
  if (file === undefined)
    return number < 1 ? ['The old text begins before the file.'] : [`The file has no line ${number}.`]
  if (file === old) return []
  const [, reason] = reasons.find(([form]) => form(old) === form(file)) ?? []
  const why = reason === undefined ? `text (${firstDifference(old.trim(), file.trim())})` : reason(old, file)
  return [`Line ${number} differs: ${why}.`]
}

function invisibleCharacters(old: string, file: string): string {
  const found = (line: string) => [...new Set(line.match(/\p{Cf}/gu) ?? [])].map(codePoint).join(', ')
  const [inFile, inOld] = [found(file), found(old)]
  const places = [inFile && `the file has ${inFile}`, inOld && `the old text has ${inOld}`].filter(
    (part) => part !== '',
  )
  return `an invisible character (${places.join(', ')})`
}

function codePoint(char: string): string {
  return `U+${(char.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`
}

function indentOf(line: string): string {
  const indent = /^\s*/.exec(line)?.[0] ?? ''
  if (indent === '') return 'none'
  if (/^\t+$/.test(indent)) return `${indent.length} tab${indent.length === 1 ? '' : 's'}`
  if (/^ +$/.test(indent)) return `${indent.length} blank${indent.length === 1 ? '' : 's'}`
  return `${JSON.stringify(indent)}`
}

/** Both texts from where they begin to differ. */
function firstDifference(old: string, file: string): string {
  const [oldChars, fileChars] = [Array.from(old), Array.from(file)]
  const at = oldChars.findIndex((char, index) => char !== fileChars[index])
  const from = Math.max(0, at === -1 ? oldChars.length : at)
  const part = (chars: readonly string[]) => JSON.stringify(chars.slice(from, from + 30).join(''))
  const special = [oldChars[from] ?? '', fileChars[from] ?? '']
    .filter((char) => /[^\0-\x7f]/.test(char))
    .map(codePoint)
  const note = special.length === 0 ? '' : `, ${special.join(' and ')}`
  return `the file has ${part(fileChars)}, the old text ${part(oldChars)}${note}`
}

function excerpt(line: string): string {
  const chars = Array.from(line.slice(0, 2 * maxShownChars + 2))
  return chars.length <= maxShownChars && line.length <= 2 * maxShownChars
    ? line
    : `${chars.slice(0, maxShownChars).join('')}…`
}
