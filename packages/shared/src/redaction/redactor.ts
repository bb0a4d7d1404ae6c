interface RedactorOptions {
  /** What stands in the place of a value. */
  readonly mark: string
  /** In which forms a value may occur in a text (`textForms`, `encodedForms`). */
  readonly forms: (value: string) => readonly string[]
}

/** Redacts known values from texts and JSON. Values can only be added: what has been a secret stays one. */
export class Redactor {
  readonly #options: RedactorOptions
  readonly #forms = new Set<string>()
  #sorted: readonly string[] | undefined
  #pattern: RegExp | undefined

  constructor(options: RedactorOptions) {
    this.#options = options
  }

  add(value: string): void {
    for (const form of this.#options.forms(value)) this.#forms.add(form)
    this.#sorted = undefined
    this.#pattern = undefined
  }

  /** Whether there is anything to redact. */
  get hasValues(): boolean {
    return this.#forms.size > 0
  }

  /** The text with the mark in the place of each form of each value; the longest form goes first. */
  redact(text: string): string {
    if (!this.hasValues) return text
    this.#pattern ??= new RegExp(this.#longestFirst.map((form) => RegExp.escape(form)).join('|'), 'g')
    return text.replace(this.#pattern, () => this.#options.mark)
  }

  /** A copy of a JSON value with every text redacted, names of members included. */
  redactJson<V>(value: V): V {
    return this.hasValues ? (this.#copy(value) as V) : value
  }

  /**
   * Redacts a text that comes in pieces: all pieces together are the whole text as `redact` gives it. What may be the beginning of
   * a value, or of a longer one, is held back until that is clear.
   */
  stream(): { add(text: string): string; end(): string } {
    let held = ''
    const take = (length: number) => {
      const piece = this.redact(held.slice(0, length))
      held = held.slice(length)
      return piece
    }
    return {
      add: (text) => {
        held += text
        return take(this.#decidedLength(held))
      },
      end: () => take(held.length),
    }
  }

  get #longestFirst(): readonly string[] {
    this.#sorted ??= [...this.#forms].sort((a, b) => b.length - a.length)
    return this.#sorted
  }

  #copy(value: unknown): unknown {
    if (typeof value === 'string') return this.redact(value)
    if (Array.isArray(value)) return value.map((item) => this.#copy(item))
    if (typeof value !== 'object' || value === null) return value
    return Object.fromEntries(
      Object.entries(value).map(([name, member]) => [this.redact(name), this.#copy(member)]),
    )
  }

  /** How much of the beginning of a text can be redacted whatever follows: no value reaches beyond it. */
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

  /** Where the longest end of a text starts that begins a value; its length when none does. */
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
