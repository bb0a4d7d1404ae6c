import { displayWidth } from '../../output/sanitize.ts'

/** Lines without line feeds, and where the cursor stands among them. */
export interface Frame {
  readonly lines: readonly string[]
  readonly row: number
  readonly column: number
}

interface Terminal {
  write(text: string): void
  readonly columns: number
}

/**
 * The last lines of a terminal, which are drawn again and again; what is printed goes above them and scrolls
 * away as in any terminal, so that it can be scrolled back, searched and copied.
 */
export class LiveRegion {
  readonly #terminal: Terminal
  #frame: Frame = { lines: [], row: 0, column: 0 }
  #isDrawn = false

  constructor(terminal: Terminal) {
    this.#terminal = terminal
  }

  /** Replaces the region. Lines must be narrower than the terminal. */
  draw(frame: Frame): void {
    this.#write(this.#erase() + this.#paint(frame))
  }

  /** Prints whole lines above the region. */
  print(text: string): void {
    this.#write(this.#erase() + text.replaceAll('\n', '\r\n') + this.#paint(this.#frame))
  }

  /** Removes the region; what was printed stays. */
  close(): void {
    this.#write(this.#erase())
    this.#frame = { lines: [], row: 0, column: 0 }
  }

  #write(text: string): void {
    // As one update where the terminal can: nothing flickers.
    if (text !== '') this.#terminal.write(`\u001b[?2026h\u001b[?25l${text}\u001b[?25h\u001b[?2026l`)
  }

  /** To the first row, and everything below it away. After a resize long lines have wrapped. */
  #erase(): string {
    if (!this.#isDrawn) return ''
    this.#isDrawn = false
    const columns = Math.max(1, this.#terminal.columns)
    const rows = (line: string) => Math.max(1, Math.ceil(visibleWidth(line) / columns))
    const above = this.#frame.lines.slice(0, this.#frame.row).reduce((sum, line) => sum + rows(line), 0)
    const up = above + Math.floor(this.#frame.column / columns)
    return `${up > 0 ? `\u001b[${up}A` : ''}\r\u001b[J`
  }

  #paint(frame: Frame): string {
    this.#frame = frame
    if (frame.lines.length === 0) return ''
    this.#isDrawn = true
    const up = frame.lines.length - 1 - frame.row
    return `${frame.lines.join('\r\n')}${up > 0 ? `\u001b[${up}A` : ''}\r${frame.column > 0 ? `\u001b[${frame.column}C` : ''}`
  }
}

/** Width without escape sequences of styles. */
export function visibleWidth(text: string): number {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin so
  return displayWidth(text.replace(/\u001b\[[0-9;]*m/g, ''))
}
