import { inexactForms, minInexactChars } from './forms.ts'
import { NeedleIndex, Prefixes } from './needle-index.ts'
import { normalizeText, openEscapeStart, unitEnd } from './normalized-text.ts'
import type { Secret } from './secret.ts'

/** A shorter piece of a value at the start of a line may be an ordinary word. */
const minFragmentChars = 8
/** Blanks and escapes within a value that a stream waits through, beside the value itself. */
const maxHeldBlanks = 4_096
/** The shortest form that is searched as it is. */
const minExactChars = 4

interface RedactorOptions {
  /** Replaces a value. */
  readonly mark: string
  /** The forms of a value to redact (`textForms`, `encodedForms`, `outputForms`). */
  readonly forms: (value: string) => readonly string[]
}

/** What is searched, made of all forms. */
interface Search {
  readonly pattern: RegExp
  readonly index: NeedleIndex
  readonly exactPrefixes: Prefixes
  readonly inexactPrefixes: Prefixes
}

/** A part of a text that is a form of a value, or a mark. */
interface Match {
  readonly start: number
  readonly end: number
}

/**
 * Redacts known values from texts and JSON. Values are never removed: a former secret stays secret. Values of
 * eight characters and more are also found in other case, broken by blanks or lines, escaped, in hex and
 * base64, and by their first or last twenty characters. Marks stay as they are, also when a value is a part
 * of one.
 */
export class Redactor {
  readonly #options: RedactorOptions
  readonly #forms = new Set<string>()
  readonly #inexactForms = new Set<string>()
  #sorted: readonly string[] | undefined
  #search: Search | undefined

  constructor(options: RedactorOptions) {
    this.#options = options
  }

  add(value: string | Secret | undefined): void {
    const text = typeof value === 'string' ? value : (value?.reveal() ?? '')
    if (this.#isMark(text)) return
    for (const form of this.#options.forms(text)) this.#forms.add(form)
    for (const form of inexactForms(text)) this.#inexactForms.add(form)
    this.#sorted = undefined
    this.#search = undefined
  }

  get hasValues(): boolean {
    return this.#forms.size > 0
  }

  /** Replaces each form of each value with the mark, longer forms first. */
  redact(text: string): string {
    if (!this.hasValues) return text
    return this.#replace(text, [...this.#matches(text)])
  }

  /** Replaces the end of a form at the start of a line: a text may be cut within a value. */
  redactLineStarts(text: string): string {
    return text
      .split('\n')
      .map((line) => this.#redactStart(line))
      .join('\n')
  }

  /** A copy of a JSON value with all strings redacted, including member names. */
  redactJson<V>(value: V): V {
    return this.hasValues ? (this.#copy(value) as V) : value
  }

  /**
   * Redacts a streamed text: the results of all calls together equal `redact` of the whole text. Holds back a
   * possible beginning of a value; a whole line only for eight characters of one, because a prompt or a
   * result would wait for what comes next. Holds at most some kilobytes more than the longest value: a value
   * with more blanks between two of its letters is found by its beginning or end alone.
   */
  stream(): { add(text: string): string; end(): string } {
    let held = ''
    const release = (openAt: number) => {
      const matches: Match[] = []
      for (const match of this.#matches(held)) {
        if (match.start >= openAt) break
        matches.push(match)
      }
      const length = Math.max(openAt, matches.at(-1)?.end ?? 0)
      const piece = this.#replace(held.slice(0, length), matches)
      held = held.slice(length)
      return piece
    }
    return {
      add: (text) => {
        if (!this.hasValues) return text
        held += text
        return release(Math.max(this.#openStart(held), held.length - this.#maxHeldChars))
      },
      end: () => release(held.length),
    }
  }

  get #longestFirst(): readonly string[] {
    this.#sorted ??= [...this.#forms].sort((a, b) => b.length - a.length)
    return this.#sorted
  }

  #redactStart(line: string): string {
    for (const form of this.#longestFirst) {
      for (let from = 1; form.length - from >= minFragmentChars; from++) {
        const fragment = form.slice(from)
        if (line.startsWith(fragment)) return this.#options.mark + line.slice(fragment.length)
      }
    }
    return line
  }

  #copy(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (Array.isArray(value)) return value.map((item) => this.#copy(item))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.redact(name), this.#copy(member)]),
    )
  }

  /** A value of stars alone, or a mark, is what a client was shown in place of a value. */
  #isMark(text: string): boolean {
    return text === this.#options.mark || /^\*+$/.test(text)
  }

  #replace(text: string, matches: readonly Match[]): string {
    const { mark } = this.#options
    let [done, from] = ['', 0]
    for (const { start, end } of matches) {
      const found = text.slice(start, end)
      done += text.slice(from, start) + (isSameMark(found, mark) ? found : mark)
      from = end
    }
    return done + text.slice(from)
  }

  /** From left to right, the longest at each place, none within another. */
  *#matches(text: string): Generator<Match> {
    if (!this.hasValues || text.length < minExactChars) return
    const { pattern, index } = this.#needles
    const { bytes, starts } = normalizeText(text)
    const findExact = (from: number): Match | undefined => {
      pattern.lastIndex = from
      const found = pattern.exec(text)
      return found === null ? undefined : { start: found.index, end: pattern.lastIndex }
    }
    let byte = 0
    const findInexact = (from: number): Match | undefined => {
      while (byte < bytes.length && (starts[byte] ?? 0) < from) byte++
      const found = index.find(bytes, byte)
      if (found === undefined) return undefined
      const last = starts[found.at + found.length - 1] ?? 0
      return { start: starts[found.at] ?? 0, end: unitEnd(text, last) }
    }
    let [nextExact, nextInexact] = [findExact(0), findInexact(0)]
    for (;;) {
      const next = first(nextExact, nextInexact)
      if (next === undefined) return
      yield next
      if (nextExact !== undefined && nextExact.start < next.end) nextExact = findExact(next.end)
      if (nextInexact !== undefined && nextInexact.start < next.end) nextInexact = findInexact(next.end)
    }
  }

  get #maxHeldChars(): number {
    const { exactPrefixes, inexactPrefixes } = this.#needles
    return maxHeldBlanks + 2 * Math.max(exactPrefixes.longest, inexactPrefixes.longest)
  }

  get #needles(): Search {
    const { mark } = this.#options
    if (this.#search !== undefined) return this.#search
    const exact = [mark, ...this.#forms].sort((a, b) => b.length - a.length)
    const inexact = [mark, ...this.#inexactForms].map((form) => normalizeText(form).bytes)
    this.#search = {
      pattern: new RegExp(exact.map((form) => RegExp.escape(form)).join('|'), 'g'),
      index: new NeedleIndex(inexact, minInexactChars),
      exactPrefixes: new Prefixes(exact),
      inexactPrefixes: new Prefixes(inexact.map(bytesText)),
    }
    return this.#search
  }

  /**
   * Start of the longest end of a text that later text may make a form; the text's length when there is none.
   */
  #openStart(text: string): number {
    const { exactPrefixes, inexactPrefixes } = this.#needles
    const exactStart = exactPrefixes.findOpen(text) ?? text.length
    if (this.#inexactForms.size === 0) return exactStart
    const escapeStart = openEscapeStart(text)
    const { bytes, starts } = normalizeText(text.slice(0, escapeStart))
    const openByte = inexactPrefixes.findOpen(bytesText(bytes)) ?? bytes.length
    const isReleased = bytes.length - openByte < (text.endsWith('\n') ? minInexactChars : 1)
    const inexactStart = isReleased ? escapeStart : (starts[openByte] ?? 0)
    return Math.min(exactStart, inexactStart, escapeStart)
  }
}

function first(a: Match | undefined, b: Match | undefined): Match | undefined {
  if (a === undefined || b === undefined) return a ?? b
  if (a.start !== b.start) return a.start < b.start ? a : b
  return a.end >= b.end ? a : b
}

/** One character for each byte. */
function bytesText(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('latin1')
}

/** Whether a text is the mark, in any of its forms. */
function isSameMark(text: string, mark: string): boolean {
  return text === mark || bytesText(normalizeText(text).bytes) === bytesText(normalizeText(mark).bytes)
}
