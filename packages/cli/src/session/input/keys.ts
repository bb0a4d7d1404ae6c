/** One key of a terminal, or a text that was typed or pasted. */
export type Key =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'paste'; readonly text: string }
  /** `ctrl-c`, `alt-enter`, `up`, `escape` and so on. */
  | { readonly kind: 'key'; readonly name: string }

const pasteStart = '\u001b[200~'
const pasteEnd = '\u001b[201~'

/** Sequences of xterm and its relatives. */
const sequences: ReadonlyMap<string, string> = new Map([
  ['[A', 'up'],
  ['[B', 'down'],
  ['[C', 'right'],
  ['[D', 'left'],
  ['OA', 'up'],
  ['OB', 'down'],
  ['OC', 'right'],
  ['OD', 'left'],
  ['[H', 'home'],
  ['[F', 'end'],
  ['OH', 'home'],
  ['OF', 'end'],
  ['[1~', 'home'],
  ['[4~', 'end'],
  ['[3~', 'delete'],
  ['[5~', 'page-up'],
  ['[6~', 'page-down'],
  ['[1;5C', 'word-right'],
  ['[1;5D', 'word-left'],
  ['[1;3C', 'word-right'],
  ['[1;3D', 'word-left'],
  ['[Z', 'shift-tab'],
  ['[13;2u', 'alt-enter'],
  ['[27;2;13~', 'alt-enter'],
])
const altKeys: Readonly<Record<string, string>> = {
  b: 'word-left',
  f: 'word-right',
  '\r': 'alt-enter',
  '\n': 'alt-enter',
  '\u007f': 'delete-word',
}
const controls: Readonly<Record<string, string>> = {
  '\r': 'enter',
  '\n': 'alt-enter',
  '\t': 'tab',
  '\u007f': 'backspace',
  '\b': 'backspace',
}

/** Reads keys from the pieces of a terminal's input; a piece may end anywhere. */
export class KeyReader {
  #buffer = ''
  #paste: string[] | undefined

  /** Whether the input so far ends in an escape that may be its own key. */
  get isWaiting(): boolean {
    return this.#paste === undefined && this.#buffer !== ''
  }

  push(piece: string): Key[] {
    this.#buffer += piece
    return this.#read(false)
  }

  /** Nothing followed for a moment: an escape that waits is the key. */
  flush(): Key[] {
    return this.#read(true)
  }

  #read(isFlush: boolean): Key[] {
    const keys: Key[] = []
    while (this.#buffer !== '') {
      const key = this.#paste === undefined ? this.#next(isFlush) : this.#readPaste()
      if (key === undefined) break
      if (key !== 'none') keys.push(key)
    }
    return keys
  }

  #readPaste(): Key | undefined {
    const end = this.#buffer.indexOf(pasteEnd)
    if (end === -1) {
      // The end mark may be split over two pieces.
      const textLength = Math.max(0, this.#buffer.length - pasteEnd.length + 1)
      this.#paste?.push(this.#buffer.slice(0, textLength))
      this.#buffer = this.#buffer.slice(textLength)
      return undefined
    }
    const text = [...(this.#paste ?? []), this.#buffer.slice(0, end)].join('')
    this.#buffer = this.#buffer.slice(end + pasteEnd.length)
    this.#paste = undefined
    return { kind: 'paste', text: text.replaceAll(/\r\n?/g, '\n') }
  }

  #next(isFlush: boolean): Key | 'none' | undefined {
    const first = this.#buffer[0] ?? ''
    if (first !== '\u001b') return this.#plain(first)
    if (this.#buffer.startsWith(pasteStart)) {
      this.#take(pasteStart.length)
      this.#paste = []
      return 'none'
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: escape sequences begin so
    const [sequence] = /^\u001b(?:\[[0-9;?]*[ -/]*[@-~]|O[@-~])/.exec(this.#buffer) ?? []
    if (sequence !== undefined) {
      this.#take(sequence.length)
      const name = sequences.get(sequence.slice(1))
      return name === undefined ? 'none' : { kind: 'key', name }
    }
    const second = this.#buffer[1]
    const isUnfinished =
      second === undefined || ((second === '[' || second === 'O') && this.#buffer.length < 16)
    if (isUnfinished && !isFlush) return undefined
    this.#take(1)
    const alt = second === undefined ? undefined : altKeys[second]
    if (alt === undefined) return { kind: 'key', name: 'escape' }
    this.#take(1)
    return { kind: 'key', name: alt }
  }

  #plain(first: string): Key | 'none' {
    const control = controls[first]
    const code = first.charCodeAt(0)
    if (control !== undefined || code < 0x20) {
      this.#take(1)
      if (code === 0) return 'none'
      return { kind: 'key', name: control ?? `ctrl-${String.fromCharCode(code + 0x60)}` }
    }
    // biome-ignore lint/suspicious/noControlCharactersInRegex: up to the next control character
    const [text = first] = /^[^\u0000-\u001f\u007f]+/.exec(this.#buffer) ?? []
    this.#take(text.length)
    return { kind: 'text', text }
  }

  #take(count: number): void {
    this.#buffer = this.#buffer.slice(count)
  }
}
