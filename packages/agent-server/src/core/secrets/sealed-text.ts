import { invalidInput, parseOrThrow, type Schema } from '@slipway/protocol'
import { mapMembers } from '@slipway/shared/json'
import type { Cipher } from '@slipway/storage'

/** Clients know sealed texts by the beginning of Fernet tokens; the rest tells ours from those of others. */
const sealedPrefix = 'gAAAAA-slipway-'
/** Of tokens of earlier versions, which clients may have stored. */
const earlierPrefix = 'slipway-sealed-'
const cannotOpenText = 'This sealed secret cannot be opened: read it again'

/** An opaque token for a client, accepted wherever a secret is. */
export function sealText(cipher: Cipher, value: string | number): string {
  // JSON keeps lone surrogates.
  return `${sealedPrefix}${cipher.seal(JSON.stringify(value)).toString('base64url')}`
}

export function isSealedText(text: string): boolean {
  return text.startsWith(sealedPrefix) || text.startsWith(earlierPrefix)
}

/** A copy with all sealed texts opened. A Problem `invalid` has the place of one sealed with another key. */
export function openSealedTexts(cipher: Cipher, value: unknown, loc: readonly (string | number)[]): unknown {
  if (typeof value !== 'string')
    return mapMembers(value, (member, name) => openSealedTexts(cipher, member, [...loc, name]))
  if (!isSealedText(value)) return value
  // Both prefixes have the same length.
  const text = cipher.open(Buffer.from(value.slice(sealedPrefix.length), 'base64url'))
  if (text === undefined) throw invalidInput(loc, cannotOpenText)
  return parseSealedContent(text, loc)
}

/** Opens sealed texts and parses again: one may contain a number. Problems `invalid`. */
export function parseWithSealedTexts<T>(
  cipher: Cipher,
  schema: Schema<T>,
  value: unknown,
  loc: readonly (string | number)[],
): T {
  return parseOrThrow(schema, openSealedTexts(cipher, value, loc), loc)
}

/** Refuses what the same key sealed for another purpose. */
function parseSealedContent(text: string, loc: readonly (string | number)[]): string | number {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'string' || typeof value === 'number') return value
  } catch {
    // Sealed for another purpose.
  }
  throw invalidInput(loc, cannotOpenText)
}
