/**
 * A text in the form in which known secrets are searched. Programs and providers repeat a secret in other
 * case, wrapped, escaped for JSON (also in JSON within JSON), URLs or HTML; all of these have the same bytes
 * here: letters in lower case, no blanks, no backslashes, escapes replaced by what they stand for. Bytes are
 * UTF-8, so that percent-encoding agrees with what it encodes.
 */
interface NormalizedText {
  readonly bytes: Uint8Array
  /** Where in the text the character, or the escape, of each byte begins. */
  readonly starts: Int32Array
}

const backslash = 0x5c
const percent = 0x25
const ampersand = 0x26
const entities: Readonly<Record<string, number>> = {
  amp: 0x26,
  apos: 0x27,
  gt: 0x3e,
  lt: 0x3c,
  nbsp: 0x20,
  quot: 0x22,
}
const entityPattern = /&(?:amp;)*(?:#x([\da-f]{1,6})|#(\d{1,7})|(amp|apos|gt|lt|nbsp|quot));/iy
const maxEntityChars = 60
const longestEscape = 64

const nonAscii = /[^\0-\x7f]/
const leftOut = 0
const escapes = 1
/** What stands for an ASCII character: itself in lower case, nothing, or a closer look. */
const plainBytes = Uint8Array.from({ length: 0x80 }, (_, code) => {
  if (code === backslash || code === percent || code === ampersand) return escapes
  if (code <= 0x20 || code === 0x7f) return leftOut
  return code >= 0x41 && code <= 0x5a ? code + 32 : code
})

/** A character and where it ends; `code` is undefined for what is left out. */
interface Unit {
  readonly code: number | undefined
  readonly end: number
}

export function normalizeText(text: string): NormalizedText {
  const bytes = new Uint8Array(text.length * (nonAscii.test(text) ? 3 : 1))
  const starts = new Int32Array(bytes.length)
  let length = 0
  for (let at = 0; at < text.length; ) {
    const code = text.charCodeAt(at)
    const plain = code < 0x80 ? (plainBytes[code] ?? 0) : escapes
    if (plain !== escapes) {
      if (plain !== leftOut) {
        bytes[length] = plain
        starts[length++] = at
      }
      at++
      continue
    }
    const unit = readUnit(text, at)
    if (unit.code !== undefined)
      for (const byte of unitBytes(unit.code)) {
        bytes[length] = byte
        starts[length++] = at
      }
    at = unit.end
  }
  return { bytes: bytes.subarray(0, length), starts }
}

/** Where the character or the escape ends that begins at a place. */
export function unitEnd(text: string, at: number): number {
  return readUnit(text, at).end
}

/** Where an escape begins that the text may cut; the length of the text when it ends in none. */
export function openEscapeStart(text: string): number {
  const tail = text.slice(-longestEscape)
  const open = /(?:\\+(?:u[\da-f]{0,3}|x[\da-f]?)?|%(?:25)*[\da-f]?|&(?:amp;)*(?:#?\w{0,8}))$/i.exec(tail)
  return open === null ? text.length : text.length - tail.length + open.index
}

function readUnit(text: string, at: number): Unit {
  const code = text.charCodeAt(at)
  if (code === backslash) return readBackslashes(text, at)
  if (code === percent) return readPercent(text, at)
  if (code === ampersand) return readEntity(text, at)
  return { code: isBlank(code) ? undefined : code, end: at + 1 }
}

/** Backslashes themselves are left out: their number depends on how often a text was escaped. */
function readBackslashes(text: string, at: number): Unit {
  let end = at + 1
  while (text.charCodeAt(end) === backslash) end++
  const letter = text[end] ?? ''
  if ('nrtbf'.includes(letter) && letter !== '') return { code: undefined, end: end + 1 }
  // One unit with its backslashes: a match that began between them would leave broken JSON.
  if (letter === '"' || letter === '/') return { code: letter.charCodeAt(0), end: end + 1 }
  const digits = letter === 'u' ? 4 : letter === 'x' ? 2 : 0
  const code = digits === 0 ? undefined : hexAt(text, end + 1, digits)
  return code === undefined ? { code, end } : visible(code, end + 1 + digits)
}

function readPercent(text: string, at: number): Unit {
  let digits = at + 1
  while (text.startsWith('25', digits) && hexAt(text, digits + 2, 2) !== undefined) digits += 2
  const code = hexAt(text, digits, 2)
  if (code === undefined) return { code: percent, end: at + 1 }
  // A byte of UTF-8, marked by a negative sign.
  return code < 0x80 ? visible(code, digits + 2) : { code: -code, end: digits + 2 }
}

function readEntity(text: string, at: number): Unit {
  entityPattern.lastIndex = at
  const [found = '', hex, decimal, name = ''] = entityPattern.exec(text) ?? []
  if (found === '' || found.length > maxEntityChars) return { code: ampersand, end: at + 1 }
  const code =
    hex !== undefined
      ? Number.parseInt(hex, 16)
      : decimal !== undefined
        ? Number(decimal)
        : entities[name.toLowerCase()]
  return code === undefined || code > 0xffff
    ? { code: ampersand, end: at + 1 }
    : visible(code, at + found.length)
}

function visible(code: number, end: number): Unit {
  return { code: isBlank(code) ? undefined : code, end }
}

function isBlank(code: number): boolean {
  if (code <= 0x20 || code === backslash) return true
  if (code < 0x7f) return false
  return (
    code <= 0xa0 ||
    code === 0xad ||
    (code >= 0x2000 && code <= 0x200f) ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x3000 ||
    code === 0xfeff
  )
}

function hexAt(text: string, at: number, digits: number): number | undefined {
  let code = 0
  for (let index = at; index < at + digits; index++) {
    const digit = hexDigit(text.charCodeAt(index))
    if (digit === undefined) return undefined
    code = code * 16 + digit
  }
  return code
}

function hexDigit(code: number): number | undefined {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const letter = code | 0x20
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : undefined
}

/** UTF-8 of one UTF-16 unit in lower case, surrogates each on their own. */
function unitBytes(code: number): readonly number[] {
  if (code < 0) return [-code]
  const lower = String.fromCharCode(code).toLowerCase()
  const unit = lower.length === 1 ? lower.charCodeAt(0) : code
  if (unit < 0x80) return [unit]
  if (unit < 0x800) return [0xc0 | (unit >> 6), 0x80 | (unit & 0x3f)]
  return [0xe0 | (unit >> 12), 0x80 | ((unit >> 6) & 0x3f), 0x80 | (unit & 0x3f)]
}
