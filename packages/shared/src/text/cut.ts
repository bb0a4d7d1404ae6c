/**
 * Cuts of texts. A cut by `slice` may halve a character outside of the basic plane, such as an emoji; what is
 * left of it is no text, and every reader shows or refuses it in its own way.
 */

/** The first `max` UTF-16 units of a text, or one less where a character would be halved. */
export function firstChars(text: string, max: number): string {
  return text.slice(0, isInSurrogatePair(text, max) ? max - 1 : max)
}

/** The last `max` UTF-16 units of a text, or one less where a character would be halved. */
export function lastChars(text: string, max: number): string {
  const start = Math.max(0, text.length - max)
  return text.slice(isInSurrogatePair(text, start) ? start + 1 : start)
}

/** Whether a cut at this index separates the halves of a surrogate pair. */
export function isInSurrogatePair(text: string, at: number): boolean {
  return /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(Math.max(0, at - 1), at + 1))
}
