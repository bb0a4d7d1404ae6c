const namedKeys: Readonly<Record<string, string>> = {
  UP: '\x1b[A',
  DOWN: '\x1b[B',
  RIGHT: '\x1b[C',
  LEFT: '\x1b[D',
  HOME: '\x1b[H',
  END: '\x1b[F',
  PGUP: '\x1b[5~',
  PGDN: '\x1b[6~',
  TAB: '\t',
  ESC: '\x1b',
  BS: '\x7f',
  ENTER: '\r',
}

/**
 * The characters to type for an input: the code of a named key (`C-c`, `UP`), otherwise the text and Enter.
 */
export function keystrokes(input: string): string {
  const key = (Object.hasOwn(namedKeys, input) ? namedKeys[input] : undefined) ?? controlCode(input)
  if (key !== undefined) return key
  return `${input.replace(/\r?\n$/, '').replace(/\r?\n/g, '\r')}\r`
}

/** The input when it is the name of a key. */
export function keyName(input: string): string | undefined {
  return Object.hasOwn(namedKeys, input) || controlCode(input) !== undefined ? input : undefined
}

/** C-a to C-z, also as Ctrl-a and Ctrl+a, ignoring case, C-@, C-[, C-\, C-], C-^, C-_ and C-?. */
function controlCode(input: string): string | undefined {
  const key = /^(?:C|Ctrl)[-+]([a-z@[\\\]^_?])$/i.exec(input)?.[1]?.toUpperCase()
  if (key === undefined) return undefined
  return key === '?' ? '\x7f' : String.fromCharCode(key.charCodeAt(0) & 0x1f)
}
