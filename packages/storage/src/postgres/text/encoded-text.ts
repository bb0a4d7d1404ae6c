/** Begins an escape: a noncharacter. */
const mark = '\u{10fffe}'

/** A text as PostgreSQL stores it: its texts have no NUL. Lone surrogates are replaced, as in UTF-8. */
export function encodeText(text: string): string {
  const wellFormed = text.toWellFormed()
  if (!wellFormed.includes('\0') && !wellFormed.includes(mark)) return wellFormed
  return wellFormed.replaceAll(mark, `${mark}1`).replaceAll('\0', `${mark}0`)
}

export function decodeText(text: string): string {
  return text.includes(mark) ? text.replaceAll(`${mark}0`, '\0').replaceAll(`${mark}1`, mark) : text
}
