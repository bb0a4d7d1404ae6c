import { redactedText } from './mark.ts'

/** A secret text: prints as stars in every way a value can be printed, and opens only by name. */
export class Secret {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  /** The text itself, for the one place that needs it. */
  reveal(): string {
    return this.#text
  }
  toString(): string {
    return redactedText
  }
  toJSON(): string {
    return redactedText
  }
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return redactedText
  }
}
