import { redactedText } from './mark.ts'

/** Shorter values, such as switches in `USE_TOKEN`, occur in ordinary texts: they are not redacted. */
export const minSecretLength = 8

/** A secret text. Prints as stars, in templates, JSON and `util.inspect`. */
export class Secret {
  readonly #text: string
  constructor(text: string) {
    this.#text = text
  }
  /** The text itself. */
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
