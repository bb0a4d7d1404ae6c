import { columnsOf, visible } from './sanitize.ts'

/**
 * Text that comes in pieces, as lines that are no wider than the terminal. A word is given out when it is complete, so that it
 * is never broken unless it is wider than a line. What is given out is safe to print.
 */
export class Flow {
  readonly #indent: string
  readonly #columns: number
  readonly #paint: (text: string) => string
  #column = 0
  #blanks = ''
  #word = ''

  /** `indent` stands in front of each line and counts to its `columns`. */
  constructor(options: {
    readonly indent: string
    readonly columns: number
    readonly paint?: (text: string) => string
  }) {
    const { indent, columns, paint = (text) => text } = options
    this.#indent = indent
    this.#columns = Math.max(1, columns - indent.length)
    this.#paint = paint
  }

  /** What can be printed now. */
  add(piece: string): string {
    let out = ''
    for (const character of piece) {
      if (character === '\n') out += `${this.#placed()}${this.#lineEnd()}`
      else if (character === ' ' || character === '\t') {
        out += this.#placed()
        this.#blanks += character === '\t' ? '    ' : ' '
      } else if (character !== '\r') this.#word += character
    }
    return out
  }

  /** The rest, with the end of its line. */
  end(): string {
    const rest = this.#placed()
    return this.#column === 0 ? rest : rest + this.#lineEnd()
  }

  /** The word that is complete, on this line or the next. */
  #placed(): string {
    if (this.#word === '') return ''
    let out = ''
    let word = visible(this.#word)
    this.#word = ''
    if (this.#column > 0 && this.#column + this.#blanks.length + columnsOf(word) > this.#columns) {
      out += this.#lineEnd()
    }
    while (columnsOf(word) > this.#columns) {
      const [part, rest] = split(word, this.#columns)
      out += this.#put(part) + this.#lineEnd()
      word = rest
    }
    return word === '' ? out : out + this.#put(word)
  }

  #put(word: string): string {
    const blanks = this.#blanks.slice(0, Math.max(0, this.#columns - this.#column - columnsOf(word)))
    const start = this.#column === 0 ? this.#indent : ''
    this.#blanks = ''
    this.#column += blanks.length + columnsOf(word)
    return `${start}${blanks}${this.#paint(word)}`
  }

  #lineEnd(): string {
    this.#column = 0
    this.#blanks = ''
    return '\n'
  }
}

/** The characters that fit, at least one, and the others. */
function split(word: string, columns: number): [string, string] {
  let part = ''
  for (const character of word) {
    if (part !== '' && columnsOf(part + character) > columns) break
    part += character
  }
  return [part, word.slice(part.length)]
}
