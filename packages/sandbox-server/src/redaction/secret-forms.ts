/** A shorter piece of base64 could be a part of any word. */
const minBase64Chars = 12

/**
 * How a secret may stand in what a program prints: as it is, in JSON, percent-encoded, in hex, and in base64 of itself or of a
 * text that it is a part of. The first is the secret itself. A text of less than four characters has none: it is in every other word.
 */
export function encodedForms(secret: string): string[] {
  if (secret.length < 4) return []
  const bytes = Buffer.from(secret)
  const hex = bytes.toString('hex')
  const forms = [
    secret,
    JSON.stringify(secret).slice(1, -1),
    // A lone surrogate has no encoding.
    encodeURIComponent(secret.toWellFormed()),
    hex,
    hex.toUpperCase(),
    ...(['base64', 'base64url'] as const).flatMap((encoding) => [
      bytes.toString(encoding),
      ...[0, 1, 2].map((before) => base64Piece(bytes, before, encoding)).filter(isLongEnough),
    ]),
  ]
  return [...new Set(forms)]
}

/** The characters that depend on nothing but these bytes when so many (modulo 3) come before them. */
function base64Piece(bytes: Buffer, offset: number, encoding: 'base64' | 'base64url'): string {
  const text = Buffer.concat([Buffer.alloc(offset), bytes]).toString(encoding)
  return text.slice(Math.ceil((offset * 8) / 6), Math.floor(((offset + bytes.length) * 8) / 6))
}

function isLongEnough(text: string): boolean {
  return text.length >= minBase64Chars
}
