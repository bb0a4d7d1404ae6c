import { type Secret, secretTexts } from '@slipway/protocol'

const stars = '**********'
/** Shorter ones stand in every other word. */
const minLength = 4

/** The secrets of one piece of work, and texts without them. */
export class Hidden {
  readonly #values = new Set<string>()

  add(value: string | Secret | undefined): void {
    const text = typeof value === 'string' ? value : value?.open()
    if (text === undefined || text.length < minLength) return
    for (const form of [text, encodeURIComponentOf(text), Buffer.from(text).toString('base64')])
      this.#values.add(form)
    // What a program prints line by line never holds a value of several lines in one piece.
    for (const line of text.split(/\r?\n/)) if (line.trim().length >= 12) this.#values.add(line.trim())
  }

  /** Everything that a configuration names as secret. */
  addIn(configuration: unknown): void {
    for (const { text } of secretTexts(configuration)) this.add(text)
  }

  /** The text with stars for each secret, also for one that is base64 or percent-encoded. */
  hide(text: string): string {
    const longestFirst = [...this.#values].sort((a, b) => b.length - a.length)
    return longestFirst.reduce((hidden, value) => hidden.replaceAll(value, stars), text)
  }
}

/** A lone surrogate has no encoding; such a text is looked for as it is. */
function encodeURIComponentOf(text: string): string {
  return encodeURIComponent(text.toWellFormed())
}
