/** Splits streamed text into complete lines and the beginning of the next one. */
export class LineBuffer {
  #partial = ''

  /** The beginning of the line that is not complete. */
  get partial(): string {
    return this.#partial
  }

  /** Returns the lines that are complete now, each with its line feed. */
  push(text: string): string {
    const all = this.#partial + text
    const end = all.lastIndexOf('\n') + 1
    this.#partial = all.slice(end)
    return all.slice(0, end)
  }
}
