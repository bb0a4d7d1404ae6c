/**
 * Control characters, marks of the direction of writing, characters without a width, halves of characters,
 * and blanks that are not the usual one: a person does not see them in a command, and the shell does.
 */
const unseen = /[\u2800\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]|(?! )\p{Zs}/gu

/** One line that hides nothing: what a person would not see is a symbol (`␛`) or a number (`\u{202e}`). */
export function visibleText(text: string): string {
  return text.replace(unseen, (character) => {
    const code = character.codePointAt(0) ?? 0
    if (code < 0x20) return String.fromCharCode(0x2400 + code)
    return code === 0x7f ? '␡' : `\\u{${code.toString(16)}}`
  })
}

/** The same for a text of several lines: all its lines, whole. */
export function visibleLines(text: string): string[] {
  return text.split('\n').map(visibleText)
}
