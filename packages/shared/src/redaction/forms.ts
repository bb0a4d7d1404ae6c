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

/** The base64 characters that only these bytes determine when `offset` bytes (modulo 3) precede them. */
function base64Piece(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString(encoding)
  return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
}

/** A text as a JSON string, without the quotes. */
function jsonText(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}
