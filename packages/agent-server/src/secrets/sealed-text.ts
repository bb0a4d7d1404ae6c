import { invalid, type Schema, validated } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'

const mark = 'slipway-sealed-'
const notOurs = 'This sealed secret cannot be opened: read it again'

/** A secret as a client may hold it: opaque, and taken back by this server wherever a secret is taken. A number comes back as one. */
export function sealText(cipher: Cipher, value: string | number): string {
  // As JSON, so that also a text with half a character comes back as it was.
  return `${mark}${cipher.seal(JSON.stringify(value)).toString('base64url')}`
}

export function looksSealed(text: string): boolean {
  return text.startsWith(mark)
}

/** A copy with every sealed text opened, at any depth. A Problem `invalid` names the place of one that another key has sealed. */
export function openTexts(cipher: Cipher, value: unknown, place: readonly (string | number)[]): unknown {
  if (typeof value === 'string') {
    if (!looksSealed(value)) return value
    const text = cipher.open(Buffer.from(value.slice(mark.length), 'base64url'))
    if (text === undefined) throw invalid(place, notOurs)
    return contentOf(text, place)
  }
  if (Array.isArray(value)) return value.map((item, index) => openTexts(cipher, item, [...place, index]))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, openTexts(cipher, member, [...place, name])]),
  )
}

/** The same, read with a schema: what was sealed may be a number where a text is wanted. Faults of it are a Problem `invalid` too. */
export function withOpened<T>(
  cipher: Cipher,
  schema: Schema<T>,
  value: unknown,
  place: readonly (string | number)[],
): T {
  return validated(schema, openTexts(cipher, value, place), place)
}

/** Much else is sealed with the same key, and none of it is a secret of a client. */
function contentOf(text: string, place: readonly (string | number)[]): string | number {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'string' || typeof value === 'number') return value
  } catch {
    // Not ours.
  }
  throw invalid(place, notOurs)
}
