import { encodedForms, findSecretTexts, redactedText, type Secret } from '@slipway/shared/redaction'

/** The secrets of one piece of work, and texts without them. */
export class Redactor {
  readonly #values = new Set<string>()

  add(value: string | Secret | undefined): void {
    const text = typeof value === 'string' ? value : value?.reveal()
    if (text === undefined) return
    for (const form of encodedForms(text)) this.#values.add(form)
    // What a program prints line by line never holds a value of several lines in one piece.
    for (const line of text.split(/\r?\n/)) if (line.trim().length >= 12) this.#values.add(line.trim())
  }

  /** Everything that a configuration names as secret. */
  addSecretsOf(configuration: unknown): void {
    for (const { text } of findSecretTexts(configuration)) this.add(text)
  }

  /** The text with stars for each secret, in whatever form (see `secretForms`). */
  redact(text: string): string {
    const longestFirst = [...this.#values].sort((a, b) => b.length - a.length)
    return longestFirst.reduce((redacted, value) => redacted.replaceAll(value, redactedText), text)
  }
}

/**
 * The end of a text that is told to people, of at most so many characters. What is cut off is cut off at a line, or at a blank in a
 * long one: half a secret could not be told from anything else.
 */
export function truncateStart(text: string, maxChars: number): string {
  const characters = [...text]
  const from = characters.length - maxChars
  if (from <= 0) return text
  const end = characters.slice(from).join('')
  if (/\s/.test(characters[from - 1] ?? '')) return end
  const line = end.indexOf('\n')
  const at = line < 0 ? end.search(/\s/) : line
  return at < 0 ? '' : end.slice(at + 1)
}
