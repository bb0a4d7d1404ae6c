import { firstChars } from '@slipway/shared/text'
import { countOccurrences } from '../core/truncate.ts'

/**
 * Lines that name failures, as test runners, compilers and linters print them: pytest, unittest, vitest,
 * jest, node, go, cargo, tsc, eslint, make, gcc, JUnit, .NET.
 */
const failure = new RegExp(
  [
    // pytest, unittest, TAP, go, make.
    /(?:FAILED|ERROR|FAIL:?|ERROR:|not ok)\s/,
    /E {3,}\S/,
    /_{3,} .+ _{3,}$/,
    /\s*--- FAIL: /,
    /panic: /,
    /make(?:\[\d+\])?: \*\*\* /,
    // vitest, jest, node.
    /\s*(?:FAIL|[×✕✗✖●⎯]) /,
    // Exceptions.
    /\s*(?:Uncaught )?[\w.]*(?:Error|Exception|Failure)\b(?: \[\w+\])?: /,
    // cargo.
    /error(?:\[E\d+\])?: /,
    /\s*--> \S+:\d+:\d+$/,
    /test .+ \.\.\. FAILED$/,
    /thread '.*' .*panicked at /,
    // Compilers and linters that name a place.
    /\S+\(\d+,\d+\): error /,
    /\S+?:\d+(?::\d+)?(?: -|:) (?:fatal )?error[: ]/,
    /\S+\.go:\d+:\d+: /,
    /\s+\S+_test\.go:\d+: /,
    /\S+\.py:\d+: \w*(?:Error|Exception|Failed)/,
    /\s+\d+:\d+\s+error\s/,
    /.*\bundefined reference to /,
    // JUnit and its like.
    /\[ERROR\] /,
    /> Task .+ FAILED$/,
    /\S.* > .+ FAILED$/,
  ]
    .map(({ source }) => `(?:${source})`)
    .join('|'),
  'y',
)
/** A text in which this does not match names no failure. */
const hint =
  /[Ee]rror|ERROR|FAIL|[Ff]ailure|Exception|panic|not ok|-->|E {3}|___|\*\*\*|undefined reference|[×✕✗✖●⎯]|\.go:\d/
/** A line that is the path of a file: linters print it once, above the failures in it. */
const pathLine = /^\S+[\w\])]\.\w{1,6}$/

/** Characters of a line that are looked at, and shown. */
const maxLineChars = 240
/** One more, by which a cut sees whether it halves a character. */
const heldLength = maxLineChars + 1
/** Lines that are compared with the patterns. */
const maxCompared = 200_000

interface FoundLine {
  readonly number: number
  /** Of its first character in the output. */
  readonly offset: number
  readonly text: string
}

/**
 * Collects lines that name failures from an output that comes in parts, in bounded memory: the first ones.
 */
export class FailureLines {
  readonly #fromOffset: number
  #room: number
  readonly #found: FoundLine[] = []
  #offset = 0
  #number = 1
  /** The beginning of the line that is not complete. */
  #line = ''
  #lineOffset = 0
  #lastPath: FoundLine | undefined
  #compared = 0

  /** Lines that begin before `fromOffset` are not collected; the others up to `maxChars` together. */
  constructor({ fromOffset, maxChars }: { readonly fromOffset: number; readonly maxChars: number }) {
    this.#fromOffset = fromOffset
    this.#room = maxChars
  }

  write(text: string): void {
    if (this.#room <= 0) return
    if (hint.test(this.#line + text)) this.#read(text)
    else this.#skip(text)
    this.#offset += text.length
  }

  /** Those that begin before an offset, with their numbers, a line each. */
  before(offset: number): string[] {
    if (this.#line !== '') this.#endLine(this.#offset)
    return this.#found.filter((line) => line.offset < offset).map(({ number, text }) => `${number}: ${text}`)
  }

  #read(text: string): void {
    let start = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', start)) {
      this.#extendLine(text.slice(start, Math.min(end, start + heldLength)))
      this.#endLine(this.#offset + end + 1)
      start = end + 1
    }
    this.#extendLine(text.slice(start, start + heldLength))
  }

  /** No line of the text, or that it continues, is of interest, except as the path above one. */
  #skip(text: string): void {
    const last = text.lastIndexOf('\n')
    if (last === -1) this.#extendLine(text.slice(0, heldLength))
    else {
      const start = last === 0 ? 0 : text.lastIndexOf('\n', last - 1) + 1
      const previous = (start === 0 ? this.#line : '') + text.slice(start, last)
      this.#number += countOccurrences(text, '\n')
      const offset = start === 0 ? this.#lineOffset : this.#offset + start
      const path = { number: this.#number - 1, offset, text: previous }
      this.#lastPath = previous.length < maxLineChars && pathLine.test(previous) ? path : undefined
      this.#lineOffset = this.#offset + last + 1
      this.#line = text.slice(last + 1, last + 1 + heldLength)
    }
  }

  #extendLine(text: string): void {
    this.#line = (this.#line + text).slice(0, heldLength)
  }

  #endLine(nextOffset: number): void {
    const line = {
      number: this.#number,
      offset: this.#lineOffset,
      text: firstChars(this.#line, maxLineChars).trimEnd(),
    }
    if (pathLine.test(line.text)) this.#lastPath = line
    if (line.offset >= this.#fromOffset && hint.test(line.text) && this.#isFailure(line.text)) {
      if (/^\s+\d+:\d+/.test(line.text)) this.#add(this.#lastPath)
      this.#add(line)
    }
    this.#line = ''
    this.#lineOffset = nextOffset
    this.#number++
  }

  #isFailure(line: string): boolean {
    if (++this.#compared >= maxCompared) this.#room = 0
    failure.lastIndex = 0
    return failure.test(line)
  }

  #add(line: FoundLine | undefined): void {
    if (line === undefined || this.#found.at(-1) === line || this.#found.includes(line)) return
    this.#room -= line.text.length + String(line.number).length + 3
    if (this.#room >= 0) this.#found.push(line)
  }
}
