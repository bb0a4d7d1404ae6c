import { isInSurrogatePair } from '@slipway/shared/text'

/** A longer line is emitted before its end; later cursor movements do not reach it. */
const maxLineChars = 16_384
/** Maximum length of an escape string (a title, an image); the rest is shown. */
const maxStringChars = 65_536

/** Everything up to the next control character. */
const printableRun = /\P{Cc}+/uy

type ParserState = 'text' | 'escape' | 'charset' | 'sequence' | 'string' | 'string-end'

/**
 * Terminal emulator for one line: removes escape codes and shows an overwritten line (a progress bar) in its
 * last state. Earlier lines never change. The text has no control characters but tabs and newlines and does
 * not depend on how the input is split.
 */
export class Screen {
  #state: ParserState = 'text'
  #parameters = ''
  #stringLength = 0
  /** The current line and the cursor in it (UTF-16 units). */
  #line = ''
  #column = 0
  #output = ''

  /** Processes input; returns the lines that it completes. */
  write(text: string): string {
    let at = 0
    while (at < text.length) at = this.#step(text, at)
    return this.#drain()
  }

  /** Returns the current line so far, which cannot be overwritten afterwards. */
  flush(): string {
    this.#commit()
    return this.#drain()
  }

  #drain(): string {
    const output = this.#output
    this.#output = ''
    return output.toWellFormed()
  }

  #commit(end = ''): void {
    this.#output += this.#line + end
    this.#line = ''
    this.#column = 0
  }

  /** Processes a run of plain text or one control character; returns the index after it. */
  #step(text: string, at: number): number {
    if (this.#state === 'text') {
      printableRun.lastIndex = at
      const run = printableRun.exec(text)?.[0]
      if (run !== undefined) {
        this.#print(run)
        return at + run.length
      }
    }
    const char = String.fromCodePoint(text.codePointAt(at) ?? 0)
    if (this.#state === 'text') this.#handleControl(char)
    else this.#handleEscape(char)
    return at + char.length
  }

  #print(text: string): void {
    // In pieces, so that the line breaks do not depend on how the input is split.
    for (let at = 0; at < text.length; ) {
      if (this.#line.length >= maxLineChars) this.#commit()
      const end = at + Math.max(1, maxLineChars - this.#column)
      const piece = text.slice(at, isInSurrogatePair(text, end) ? end + 1 : end)
      this.#overwrite(piece)
      at += piece.length
    }
  }

  #overwrite(piece: string): void {
    const end = this.#column + piece.length
    const line = this.#line.length < this.#column ? this.#line.padEnd(this.#column) : this.#line
    this.#line =
      this.#column === line.length ? line + piece : line.slice(0, this.#column) + piece + line.slice(end)
    this.#column = end
  }

  #handleControl(char: string): void {
    if (isBetween(char, '\x80', '\x9f')) {
      // A C1 control character is short for an escape and a letter.
      this.#state = 'escape'
      this.#handleEscape(String.fromCharCode(char.charCodeAt(0) - 0x40))
    } else if (char === '\x1b') this.#state = 'escape'
    else if (char === '\n' || char === '\v' || char === '\f') this.#commit('\n')
    else if (char === '\r') this.#column = 0
    else if (char === '\b') this.#column = Math.max(0, this.#column - 1)
    else if (char === '\t') this.#print('\t')
  }

  #handleEscape(char: string): void {
    if (char === '\x18' || char === '\x1a') this.#state = 'text'
    else if (this.#state === 'escape') this.#afterEscape(char)
    else if (this.#state === 'charset') this.#inCharset(char)
    else if (this.#state === 'sequence') this.#inSequence(char)
    else if (this.#state === 'string') this.#inString(char)
    else if (char === '\\') this.#state = 'text'
    else {
      // An escape code in a string ends it.
      this.#state = 'escape'
      this.#handleEscape(char)
    }
  }

  #afterEscape(char: string): void {
    if (char === '\x1b') return
    if (char === '[') {
      this.#state = 'sequence'
      this.#parameters = ''
    } else if (']PX^_'.includes(char)) {
      this.#state = 'string'
      this.#stringLength = 0
    } else if (isBetween(char, '\x20', '\x2f') || char === 'N' || char === 'O') this.#state = 'charset'
    else {
      this.#state = 'text'
      if (char === 'D' || char === 'E') this.#handleControl('\n')
      else if (!isBetween(char, '\x30', '\x7e')) this.#reprocess(char)
    }
  }

  #inCharset(char: string): void {
    if (isBetween(char, '\x20', '\x2f')) return
    this.#state = 'text'
    if (!isBetween(char, '\x30', '\x7e')) this.#reprocess(char)
  }

  #inSequence(char: string): void {
    if (isBetween(char, '\x40', '\x7e')) {
      this.#state = 'text'
      this.#applySequence(char)
    } else if (isBetween(char, '\x20', '\x3f') && this.#parameters.length < 64) this.#parameters += char
    else if (char < '\x20' && char !== '\x1b') this.#handleControl(char)
    else {
      this.#state = 'text'
      this.#reprocess(char)
    }
  }

  #inString(char: string): void {
    this.#stringLength++
    if (char === '\x1b') this.#state = 'string-end'
    else if (char === '\x07' || char === '\x9c') this.#state = 'text'
    else if (char === '\n' || this.#stringLength > maxStringChars) {
      this.#state = 'text'
      this.#reprocess(char)
    }
  }

  /** Processes a character that is not part of an escape code. */
  #reprocess(char: string): void {
    if (char < '\x20' || isBetween(char, '\x7f', '\x9f')) this.#handleControl(char)
    else this.#print(char)
  }

  /** The sequences that move within the line or clear it; all others are ignored. */
  #applySequence(final: string): void {
    const count = Math.min(Number.parseInt(this.#parameters, 10) || 0, 1024)
    if (final === 'G') this.#column = Math.max(1, count) - 1
    else if (final === 'C') this.#column = Math.min(this.#column + Math.max(1, count), maxLineChars)
    else if (final === 'D') this.#column = Math.max(0, this.#column - Math.max(1, count))
    else if (final === 'K' && count === 0) this.#line = this.#line.slice(0, this.#column)
    else if (final === 'K' && count === 1)
      this.#line = ' '.repeat(this.#column) + this.#line.slice(this.#column)
    else if (final === 'K') this.#line = ''
  }
}

function isBetween(char: string, from: string, to: string): boolean {
  return char >= from && char <= to
}
