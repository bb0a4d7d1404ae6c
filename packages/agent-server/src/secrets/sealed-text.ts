import { invalidInput, parseOrThrow, type Schema } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'

const sealedPrefix = 'slipway-sealed-'
const cannotOpenText = 'This sealed secret cannot be opened: read it again'

/** A secret as a client may hold it: opaque, and taken back by this server wherever a secret is taken. A number comes back as one. */
export function sealText(cipher: Cipher, value: string | number): string {
  // As JSON, so that also a text with half a character comes back as it was.
  return `${sealedPrefix}${cipher.seal(JSON.stringify(value)).toString('base64url')}`
}

export function isSealedText(text: string): boolean {
  return text.startsWith(sealedPrefix)
}

/** A copy with every sealed text opened, at any depth. A Problem `invalid` names the place of one that another key has sealed. */
export function openSealedTexts(cipher: Cipher, value: unknown, loc: readonly (string | number)[]): unknown {
  if (typeof value === 'string') {
    if (!isSealedText(value)) return value
    const text = cipher.open(Buffer.from(value.slice(sealedPrefix.length), 'base64url'))
    if (text === undefined) throw invalidInput(loc, cannotOpenText)
    return parseSealedContent(text, loc)
  }
  if (Array.isArray(value)) return value.map((item, index) => openSealedTexts(cipher, item, [...loc, index]))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, openSealedTexts(cipher, member, [...loc, name])]),
  )
}

/** The same, read with a schema: what was sealed may be a number where a text is wanted. Faults of it are a Problem `invalid` too. */
export function parseWithSealedTexts<T>(
  cipher: Cipher,
  schema: Schema<T>,
  value: unknown,
  loc: readonly (string | number)[],
): T {
  return parseOrThrow(schema, openSealedTexts(cipher, value, loc), loc)
}

/** Much else is sealed with the same key, and none of it is a secret of a client. */
function parseSealedContent(text: string, loc: readonly (string | number)[]): string | number {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'string' || typeof value === 'number') return value
  } catch {
    // Not ours.
  }
  throw invalidInput(loc, cannotOpenText)
}
