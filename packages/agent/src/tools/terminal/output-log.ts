import { lastChars } from '@slipway/shared/text'
import { findSafeCut } from './output-capture.ts'

/** Output is redacted in blocks of this many characters ... */
const blockChars = 262_144
/** ... of which this many are held back, so that no secret up to this length is split. */
const overlapChars = 65_536
/** Characters that stay readable; older ones are dropped. */
const maxChars = 500_000

/** A part of the output; positions count characters of the redacted output from its beginning. */
interface OutputPart {
  readonly text: string
  /** Where `text` begins: after the asked position when that was dropped. */
  readonly start: number
  readonly end: number
  /** The end of what there is. */
  readonly total: number
}

/** The redacted output of a command in bounded memory, read by position. */
export class OutputLog {
  readonly #redact: (text: string) => string
  /** Not redacted yet. */
  #pending = ''
  #text = ''
  #dropped = 0

  constructor(redact: (text: string) => string) {
    this.#redact = redact
  }

  write(text: string): void {
    this.#pending += text
    if (this.#pending.length < blockChars) return
    this.#commit(findSafeCut(this.#pending, this.#pending.length - overlapChars, this.#redact))
  }

  /** The position after everything that was written. */
  get total(): number {
    this.#commit(this.#pending.length)
    return this.#dropped + this.#text.length
  }

  /** At most `length` characters from a position on. */
  read(position: number, length: number): OutputPart {
    const { total } = this
    const start = Math.min(Math.max(position, this.#dropped), total)
    const text = this.#text.slice(start - this.#dropped, start - this.#dropped + length)
    return { text: text.toWellFormed(), start, end: start + text.length, total }
  }

  #commit(chars: number): void {
    const text = this.#text + this.#redact(this.#pending.slice(0, chars))
    this.#pending = this.#pending.slice(chars)
    this.#text = lastChars(text, maxChars)
    this.#dropped += text.length - this.#text.length
  }
}
