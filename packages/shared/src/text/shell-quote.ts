/** A text as one word of a POSIX shell. NUL is dropped, because no word may have it. */
export function shellQuote(text: string): string {
  return `'${text.replaceAll('\0', '').replaceAll("'", "'\\''")}'`
}

/** The same, without quotes around a text that needs none. */
export function shellWord(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : shellQuote(text)
}
