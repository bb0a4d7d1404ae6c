import type { Secret } from './secret.ts'

/** A shorter piece of a value at the start of a line may be an ordinary word. */
const minFragmentChars = 8

interface RedactorOptions {
  /** Replaces a value. */
  readonly mark: string
  /** The forms of a value to redact (`textForms`, `encodedForms`, `outputForms`). */
  readonly forms: (value: string) => readonly string[]
}

/** Redacts known values from texts and JSON. Values are never removed: a former secret stays secret. */
export class Redactor {
  readonly #options: RedactorOptions
  readonly #forms = new Set<string>()
  #sorted: readonly string[] | undefined
  #pattern: RegExp | undefined

  constructor(options: RedactorOptions) {
    this.#options = options
  }

  add(value: string | Secret | undefined): void {
    const text = typeof value === 'string' ? value : (value?.reveal() ?? '')
    for (const form of this.#options.forms(text)) this.#forms.add(form)
    this.#sorted = undefined
    this.#pattern = undefined
  }

  get hasValues(): boolean {
    return this.#forms.size > 0
  }

  /** Replaces each form of each value with the mark, longer forms first. */
  redact(text: string): string {
    if (!this.hasValues) return text
    this.#pattern ??= new RegExp(this.#longestFirst.map((form) => RegExp.escape(form)).join('|'), 'g')
    return text.replace(this.#pattern, () => this.#options.mark)
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
   * possible beginning of a value.
   */
  stream(): { add(text: string): string; end(): string } {
    let held = ''
    const release = (length: number) => {
      const piece = this.redact(held.slice(0, length))
      held = held.slice(length)
      return piece
    }
    return {
      add: (text) => {
        held += text
        return release(this.#decidedLength(held))
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

  /** Length of the beginning of a text that no later text can change: no value crosses its end. */
  #decidedLength(text: string): number {
    let length = this.#openStart(text)
    for (;;) {
      const starts = this.#longestFirst.map((form) =>
        text.indexOf(form, Math.max(0, length - form.length + 1)),
      )
      const start = Math.min(...starts.filter((at) => at !== -1), length)
      if (start === length) return length
      length = start
    }
  }

  /** Start of the longest suffix of a text that is a prefix of a value; its length when there is none. */
  #openStart(text: string): number {
    let longest = 0
    for (const form of this.#longestFirst) {
      for (let length = Math.min(form.length - 1, text.length); length > longest; length--) {
        if (text.endsWith(form.slice(0, length))) longest = length
      }
    }
    return text.length - longest
  }
}
