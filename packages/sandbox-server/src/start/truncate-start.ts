/** The end of a text, from a line break or a blank: a part of a secret could not be recognized. */
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
