import { displayWidth, sanitizeLine } from './sanitize.ts'
import { paint, type Style } from './terminal.ts'

/**
 * Wraps streamed text to the width of the terminal, safe to print. Words are written when complete, so only a
 * word wider than a line is broken.
 */
export class WordWrapper {
  readonly #indent: string
  readonly #columns: number
  readonly #style: Style | undefined
  #column = 0
  #spaces = ''
  #word = ''

  /** `indent` precedes each line and counts toward `columns`. */
  constructor(options: {
    readonly indent: string
    readonly columns: number
    readonly style?: Style | undefined
  }) {
    const { indent, columns, style } = options
    this.#indent = indent
    this.#columns = Math.max(1, columns - indent.length)
    this.#style = style
  }

  /** Returns the complete words. */
  write(piece: string): string {
    let out = ''
    for (const character of piece) {
      if (character === '\n') out += `${this.#flushWord()}${this.#breakLine()}`
      else if (character === ' ' || character === '\t') {
        out += this.#flushWord()
        this.#spaces += character === '\t' ? '    ' : ' '
      } else if (character !== '\r') this.#word += character
    }
    return out
  }

  /** Returns the rest and ends the line. */
  finish(): string {
    const rest = this.#flushWord()
    return this.#column === 0 ? rest : rest + this.#breakLine()
  }

  /** The word that is complete, on this line or the next. */
  #flushWord(): string {
    if (this.#word === '') return ''
    let out = ''
    let word = sanitizeLine(this.#word)
    this.#word = ''
    if (this.#column > 0 && this.#column + this.#spaces.length + displayWidth(word) > this.#columns) {
      out += this.#breakLine()
    }
    while (displayWidth(word) > this.#columns) {
      const [part, rest] = splitAtWidth(word, this.#columns)
      out += this.#writeWord(part) + this.#breakLine()
      word = rest
    }
    return word === '' ? out : out + this.#writeWord(word)
  }

  #writeWord(word: string): string {
    const spaces = this.#spaces.slice(0, Math.max(0, this.#columns - this.#column - displayWidth(word)))
    const start = this.#column === 0 ? this.#indent : ''
    this.#spaces = ''
    this.#column += spaces.length + displayWidth(word)
    return start + spaces + (this.#style === undefined ? word : paint(this.#style, word))
  }

  #breakLine(): string {
    this.#column = 0
    this.#spaces = ''
    return '\n'
  }
}

/** The rows of a line that is safe to print: at most so wide, with all its characters. */
export function wrapLine(line: string, columns: number): string[] {
  const rows: string[] = []
  let row = ''
  let width = 0
  for (const character of line) {
    const more = displayWidth(character)
    if (row !== '' && width + more > columns) {
      rows.push(row)
      row = ''
      width = 0
    }
    row += character
    width += more
  }
  return [...rows, row]
}

/** The characters that fit, at least one, and the others. */
function splitAtWidth(word: string, columns: number): [string, string] {
  let part = ''
  for (const character of word) {
    if (part !== '' && displayWidth(part + character) > columns) break
    part += character
  }
  return [part, word.slice(part.length)]
}
