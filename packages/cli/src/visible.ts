/** C0 and DEL, C1, marks that turn the direction of writing, and separators of lines. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const unsafe = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/**
 * A text that a terminal shows and does not obey, in one line: each run of white space is one blank, control
 * characters are seen as symbols (`␛`) or by number (`\x9b`).
 */
export function visible(text: string): string {
  return text.replace(/[ \t\r\n]+/g, ' ').replace(unsafe, symbol)
}

/** At most `length` characters of a text, with a mark where it was cut. */
export function cut(text: string, length: number): string {
  if (text.length <= length) return text
  const characters = [...text.slice(0, 2 * length + 2)]
  return characters.length <= length ? characters.join('') : `${characters.slice(0, length - 1).join('')}…`
}

function symbol(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '␡'
  return code < 0x100 ? `\\x${code.toString(16)}` : `\\u${code.toString(16).padStart(4, '0')}`
}
