/** C0 and DEL, C1, marks that turn the direction of writing, and separators of lines. */
const unsafeCharacters =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
  /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g

/**
 * One line without control sequences: runs of white space become one blank, control characters become symbols
 * (`␛`) or numbers (`\x9b`).
 */
export function sanitizeLine(text: string): string {
  return text.replace(/[ \t\r\n]+/g, ' ').replace(unsafeCharacters, escapeCharacter)
}

/** The same for a text of several lines: its lines, with their blanks. */
export function sanitizeLines(text: string): string[] {
  return text
    .split(/\r\n|\n|\r/)
    .map((line) => line.replaceAll('\t', '    ').replace(unsafeCharacters, escapeCharacter).trimEnd())
}

/** Truncates to a number of characters, with a mark. */
export function truncate(text: string, length: number): string {
  if (text.length <= length) return text
  const characters = [...text.slice(0, 2 * length + 2)]
  return characters.length <= length ? characters.join('') : `${characters.slice(0, length - 1).join('')}…`
}

/** Width of a line in terminal columns: wide characters take two, combining marks none. */
export function displayWidth(text: string): number {
  let columns = 0
  for (const character of text) columns += characterWidth(character)
  return columns
}

/** Truncates to a width in columns, with a mark. */
export function truncateToWidth(text: string, columns: number): string {
  if (displayWidth(text) <= columns) return text
  let result = ''
  let width = 0
  for (const character of text) {
    width += characterWidth(character)
    if (width > columns - 1) break
    result += character
  }
  return `${result}…`
}

const wideCharacter =
  /\p{Emoji_Presentation}|[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff01-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u
const zeroWidthCharacter = /^[\p{Mn}\p{Me}\p{Cf}]$/u

function characterWidth(character: string): number {
  if (character <= '~') return 1
  if (zeroWidthCharacter.test(character)) return 0
  return wideCharacter.test(character) ? 2 : 1
}

function escapeCharacter(character: string): string {
  const code = character.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return '␡'
  return code < 0x100 ? `\\x${code.toString(16)}` : `\\u${code.toString(16).padStart(4, '0')}`
}
