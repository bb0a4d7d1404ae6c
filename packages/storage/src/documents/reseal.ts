import { isRecord, mapMembers, parseJson } from '@slipway/shared/json'
import type { Cipher } from '../crypto/cipher.ts'

interface ResealedDocument {
  /** What two documents have in common that differ by nonces and keys alone. */
  readonly value: string
  /** Sealed with the first key. */
  readonly bytes: Buffer
}

/**
 * A document, or the sealed members of one, sealed again with the first key of a cipher, as servers that have
 * no other key need it. Undefined when something in it does not open.
 */
export function reseal(name: string, bytes: Buffer, cipher: Cipher): ResealedDocument | undefined {
  if (name.endsWith('.sealed')) {
    const value = cipher.open(bytes)
    return value === undefined ? undefined : { value, bytes: cipher.seal(value) }
  }
  const texts: (string | undefined)[] = []
  const resealMember = (member: unknown): unknown => {
    if (!isRecord(member) || !('$sealed' in member)) return mapMembers(member, resealMember)
    const text = cipher.open(Buffer.from(String(member.$sealed), 'base64'))
    texts.push(text)
    return { $sealed: text === undefined ? text : cipher.seal(text).toString('base64') }
  }
  const resealed = resealMember(parseJson(bytes.toString()))
  if (texts.includes(undefined)) return undefined
  if (texts.length === 0) return { value: bytes.toString(), bytes }
  const value = JSON.stringify([mapSealed(resealed), texts])
  return { value, bytes: Buffer.from(`${JSON.stringify(resealed, null, 2)}\n`) }
}

function mapSealed(value: unknown): unknown {
  return isRecord(value) && '$sealed' in value ? { $sealed: '' } : mapMembers(value, mapSealed)
}

/** Whether two documents have the same value, also where they were sealed apart. */
export function isSameDocument(
  name: string,
  [one, other]: readonly [Buffer, Buffer],
  cipher: Cipher | undefined,
): boolean {
  if (one.equals(other)) return true
  if (cipher === undefined) return false
  const value = reseal(name, one, cipher)?.value
  return value !== undefined && value === reseal(name, other, cipher)?.value
}
