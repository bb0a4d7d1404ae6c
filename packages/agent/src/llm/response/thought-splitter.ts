/** A piece of a reply's text. */
interface SplitPiece {
  readonly type: 'text' | 'reasoning'
  readonly text: string
}

const opening = /^\s*<(think|thinking|thought|reasoning)>\s*/
const mayOpen = /^\s*(?:<[a-z]*)?$/

const looseEnding = /(?:^|\n)[ \t]*<\/(?:think|thinking|thought|reasoning)>[ \t]*(?:\n\s*|$)/

/**
 * The thought before an ending tag alone on its line, and the answer behind it: some templates open the
 * thought in the prompt, so that only its end is in the text. Undefined where there is none, or a fence
 * before it.
 */
export function splitAtLooseEnding(text: string): { thought: string; answer: string } | undefined {
  const found = looseEnding.exec(text)
  const thought = text.slice(0, found?.index ?? 0)
  if (found === null || thought.includes('```')) return undefined
  return { thought: thought.trim(), answer: text.slice(found.index + found[0].length) }
}

/**
 * Splits thoughts from an answer whose server leaves them in its text: `<think>` at the beginning, up to its end
 * tag. What they have of calls is not executed, and they are not the answer.
 */
export class ThoughtSplitter {
  #held = ''
  #state: 'beginning' | 'thought' | 'answer' = 'beginning'
  #ending = ''
  /** Nothing but blanks has come since the last tag. */
  #isFresh = false

  /** Holds back what could be the beginning of a tag. */
  add(text: string): readonly SplitPiece[] {
    this.#held += text
    if (this.#isFresh) this.#held = this.#held.trimStart()
    if (this.#isFresh && this.#held === '') return []
    if (this.#state === 'answer') return this.#answer()
    if (this.#state === 'beginning') {
      const found = opening.exec(this.#held)
      if (found === null) return mayOpen.test(this.#held) ? [] : this.#answer()
      this.#ending = `</${found[1]}>`
      this.#held = this.#held.slice(found[0].length)
      this.#state = 'thought'
      this.#isFresh = this.#held === ''
    }
    return this.#thought()
  }

  /** What was held back. A thought without an end stays one. */
  end(): readonly SplitPiece[] {
    const text = this.#held
    this.#held = ''
    if (text === '') return []
    return [{ type: this.#state === 'thought' ? 'reasoning' : 'text', text }]
  }

  #answer(): readonly SplitPiece[] {
    this.#state = 'answer'
    if (this.#held !== '') this.#isFresh = false
    return this.end()
  }

  #thought(): readonly SplitPiece[] {
    const at = this.#held.indexOf(this.#ending)
    if (at < 0) {
      const safe = Math.max(0, this.#held.length - this.#ending.length + 1)
      const text = this.#held.slice(0, safe)
      this.#held = this.#held.slice(safe)
      if (text !== '') this.#isFresh = false
      return text === '' ? [] : [{ type: 'reasoning', text }]
    }
    const thought = this.#held.slice(0, at).trimEnd()
    this.#held = this.#held.slice(at + this.#ending.length).trimStart()
    this.#isFresh = true
    const rest = this.#answer()
    return thought === '' ? rest : [{ type: 'reasoning', text: thought }, ...rest]
  }
}
