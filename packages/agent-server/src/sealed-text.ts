import { invalid } from '@slipway/protocol'
import type { Cipher } from '@slipway/storage'

const mark = 'slipway-sealed-'

/** A secret as a client may hold it: opaque, and taken back by this server wherever a secret is taken. */
export function sealText(cipher: Cipher, text: string): string {
  return `${mark}${cipher.seal(text).toString('base64url')}`
}

/** A copy with every sealed text opened, at any depth. A Problem `invalid` names the place of one that another key has sealed. */
export function openTexts(cipher: Cipher, value: unknown, place: readonly (string | number)[]): unknown {
  if (typeof value === 'string') {
    if (!value.startsWith(mark)) return value
    const text = cipher.open(Buffer.from(value.slice(mark.length), 'base64url'))
    if (text === undefined) throw invalid(place, 'This sealed secret cannot be opened: read it again')
    return text
  }
  if (Array.isArray(value)) return value.map((item, index) => openTexts(cipher, item, [...place, index]))
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [name, openTexts(cipher, member, [...place, name])]),
  )
}
