import type { Key } from './keys.ts'

/** The text that is written, and the cursor as an index of UTF-16 code units. */
export interface EditorState {
  readonly text: string
  readonly cursor: number
}

/** Longer pastes are shown as a mark and sent whole. */
const maxPasteCharacters = 1_000
const maxPasteLines = 8
const segmenter = new Intl.Segmenter()

/** A line editor with several lines, a history, and marks for long pastes. */
export class Editor {
  #state: EditorState = { text: '', cursor: 0 }
  readonly #history: string[]
  #at: number
  #draft = ''
  readonly #pastes = new Map<string, string>()

  /** `history`: the oldest first. */
  constructor(history: readonly string[] = []) {
    this.#history = [...history]
    this.#at = this.#history.length
  }

  get state(): EditorState {
    return this.#state
  }

  /** The text with the pastes that its marks stand for. */
  get fullText(): string {
    let { text } = this.#state
    for (const [mark, paste] of this.#pastes) text = text.replaceAll(mark, () => paste)
    return text
  }

  /** Empties the editor and adds what was in it to the history. */
  submit(): string {
    const { fullText } = this
    if (fullText.trim() !== '' && this.#history.at(-1) !== fullText) this.#history.push(fullText)
    this.clear()
    return fullText
  }

  clear(): void {
    this.replace('')
    this.#pastes.clear()
    this.#at = this.#history.length
  }

  replace(text: string, cursor = text.length): void {
    this.#state = { text, cursor }
  }

  insert(text: string): void {
    const { text: old, cursor } = this.#state
    this.replace(old.slice(0, cursor) + text + old.slice(cursor), cursor + text.length)
  }

  /** Whether the key was one of the editor's. */
  handle(key: Key): boolean {
    if (key.kind === 'text') this.insert(key.text)
    else if (key.kind === 'paste') this.#paste(key.text)
    else return this.#handleKey(key.name)
    return true
  }

  #paste(text: string): void {
    const lines = text.split('\n').length
    if (text.length <= maxPasteCharacters && lines <= maxPasteLines) {
      this.insert(text)
      return
    }
    const mark = `[Pasted text ${this.#pastes.size + 1}: ${lines} lines, ${text.length} characters]`
    this.#pastes.set(mark, text)
    this.insert(mark)
  }

  #handleKey(name: string): boolean {
    const { text, cursor } = this.#state
    const lineStart = text.lastIndexOf('\n', cursor - 1) + 1
    const lineEnd = (text.indexOf('\n', cursor) + text.length + 1) % (text.length + 1)
    switch (name) {
      case 'left':
        this.replace(text, this.#left())
        return true
      case 'right':
        this.replace(text, this.#right())
        return true
      case 'home':
      case 'ctrl-a':
        this.replace(text, lineStart)
        return true
      case 'end':
      case 'ctrl-e':
        this.replace(text, lineEnd)
        return true
      case 'word-left':
        this.replace(text, wordStart(text, cursor))
        return true
      case 'word-right':
        this.replace(text, cursor + (/^\s*\S*/.exec(text.slice(cursor))?.[0].length ?? 0))
        return true
      case 'backspace':
        this.#cut(this.#left(), cursor)
        return true
      case 'delete':
      case 'ctrl-d':
        this.#cut(cursor, this.#right())
        return true
      case 'ctrl-w':
      case 'delete-word':
        this.#cut(wordStart(text, cursor), cursor)
        return true
      case 'ctrl-u':
        this.#cut(lineStart, cursor)
        return true
      case 'ctrl-k':
        this.#cut(cursor, lineEnd === cursor ? Math.min(text.length, cursor + 1) : lineEnd)
        return true
      case 'alt-enter':
        this.insert('\n')
        return true
      case 'up':
        if (lineStart === 0) this.#recall(this.#at - 1)
        else this.#moveLine(lineStart - 1, cursor - lineStart)
        return true
      case 'down':
        if (lineEnd === text.length) this.#recall(this.#at + 1)
        else this.#moveLine(lineEnd + 1, cursor - lineStart)
        return true
      default:
        return false
    }
  }

  /** To the line with this index in it, as far in as before. */
  #moveLine(index: number, column: number): void {
    const { text } = this.#state
    const start = text.lastIndexOf('\n', index - 1) + 1
    const end = text.indexOf('\n', start)
    this.replace(text, Math.min(start + column, end === -1 ? text.length : end))
  }

  #recall(at: number): void {
    if (at < 0 || at > this.#history.length) return
    if (this.#at === this.#history.length) this.#draft = this.#state.text
    this.#at = at
    this.replace(this.#history[at] ?? this.#draft)
  }

  #cut(from: number, to: number): void {
    const { text } = this.#state
    this.replace(text.slice(0, from) + text.slice(to), from)
  }

  #left(): number {
    const { text, cursor } = this.#state
    const [last] = [...segmenter.segment(text.slice(Math.max(0, cursor - 64), cursor))].slice(-1)
    return cursor - (last?.segment.length ?? 0)
  }

  #right(): number {
    const { text, cursor } = this.#state
    const [next] = segmenter.segment(text.slice(cursor, cursor + 64))
    return cursor + (next?.segment.length ?? 0)
  }
}

function wordStart(text: string, cursor: number): number {
  return cursor - (/\S*\s*$/.exec(text.slice(0, cursor))?.[0].length ?? 0)
}
