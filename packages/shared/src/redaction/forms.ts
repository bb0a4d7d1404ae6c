/** Shorter values occur in ordinary text and are not redacted. */
const minValueChars = 4
/** Shorter pieces of base64 occur in ordinary words. */
const minBase64Chars = 12
/** Shorter lines of a value occur in ordinary output. */
const minLineChars = 12

/** Forms of a secret in a text or a JSON value: itself, trimmed, in JSON, and in JSON within JSON. */
export function textForms(value: string): string[] {
  const forms = [value, value.trim()]
    .filter(({ length }) => length >= minValueChars)
    .flatMap((form) => [form, jsonText(form), jsonText(jsonText(form))])
  return [...new Set(forms)]
}

/**
 * Forms of a secret in output of programs and providers: itself (always the first), in JSON, percent-encoded,
 * in hex, and in base64 of itself or of a text that contains it. A value of less than four characters has no
 * form.
 */
export function encodedForms(value: string): string[] {
  if (value.length < minValueChars) return []
  const bytes = Buffer.from(value)
  const hex = bytes.toString('hex')
  const forms = [
    value,
    jsonText(value),
    // A lone surrogate has no percent-encoding.
    encodeURIComponent(value.toWellFormed()),
    hex,
    hex.toUpperCase(),
    ...(['base64', 'base64url'] as const).flatMap((encoding) => [
      bytes.toString(encoding),
      ...[0, 1, 2]
        .map((offset) => base64Piece(bytes, offset, encoding))
        .filter(({ length }) => length >= minBase64Chars),
    ]),
  ]
  return [...new Set(forms)]
}

/** `encodedForms` and the long lines of a value, for output that is redacted line by line. */
export function outputForms(value: string): string[] {
  const lines = value.split(/\r?\n/).map((line) => line.trim())
  return [...encodedForms(value), ...lines.filter(({ length }) => length >= minLineChars)]
}

/** A value from this length on is also found in other case, broken, escaped, encoded and in part. */
export const minInexactChars = 8
/** Providers show this many characters of the beginning or the end of a key. */
const fragmentChars = 20
/**
 * A value of several words, settings, an address, a path, a host or a PEM block begins and ends like others
 * of its kind.
 */
const keyLike = /^(?![/~.]|-----)(?!.*(?::\/\/|[;,]))(?!.*\.[a-z]{2,24}(?::\d+)?$)\S+$/i
/** Beginnings that all tokens, keys and documents of a kind share in base64. */
const commonBeginning = /^(?:eyJ|AAAA|LS0t|MII|YXBp)/
/** Short words and numbers that texts have in other case, or broken, on their own. */
const ordinary = /^(?:[a-z]{1,11}|\d{1,11})$/i

/**
 * Forms to search in a normalized text: the value, its beginning and its end, hex, and base64 of itself or of
 * a text that contains it. Empty for a value of fewer than eight characters.
 */
export function inexactForms(value: string): string[] {
  const text = value.trim()
  if (text.length < minInexactChars) return []
  const hasFragments = text.length > fragmentChars && keyLike.test(text)
  return [...new Set([value, text])].flatMap((form) => {
    const bytes = Buffer.from(form)
    const plain = [
      form,
      // Encoded, so that what looks like an escape in the value stays as it is.
      encodeURIComponent(form.toWellFormed()).replaceAll('%20', '+'),
      form.replace(/[\\%&]/g, (char) => `%${char.charCodeAt(0).toString(16)}`),
    ]
    return [
      ...(ordinary.test(text) ? [] : plain),
      bytes.toString('hex'),
      ...(['base64', 'base64url'] as const).flatMap((encoding) => [
        bytes.toString(encoding),
        ...[0, 1, 2].map((offset) => base64Piece(bytes, offset, encoding)),
      ]),
      ...(hasFragments && !commonBeginning.test(form) ? [form.slice(0, fragmentChars)] : []),
      ...(hasFragments ? [form.slice(-fragmentChars)] : []),
    ]
  })
}

/** The base64 characters that only these bytes determine when `offset` bytes (modulo 3) precede them. */
function base64Piece(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString(encoding)
  return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
}

/** A text as a JSON string, without the quotes. */
function jsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
