import { hash } from 'node:crypto'

/**
 * Signatures of the tests' providers. A real signature says that its provider made the text, and where it
 * stood; this one says the same and can be read, so that a validator finds a changed, moved or foreign one.
 */

export type Signer = 'claude' | 'gemini' | 'openai'

interface Signed {
  readonly signer: string
  /** The order of the message's parts: thoughts (r), texts (t) and calls (c). */
  readonly order: string
  /** The place of this part in that order. */
  readonly index: number
  readonly digest: string
}

const digest = (text: string) => hash('sha256', text).slice(0, 12)

export function sign(signer: Signer, text: string, order = '', index = 0): string {
  return Buffer.from([signer, order, index, digest(text)].join('|')).toString('base64')
}

export function readSignature(signature: string): Signed {
  const [signer = '', order = '', index = '', found = ''] = Buffer.from(signature, 'base64')
    .toString('latin1')
    .split('|')
  return { signer, order, index: Number(index), digest: found }
}

export function isSigned(signer: Signer, text: string, signature: string): boolean {
  const found = readSignature(signature)
  return found.signer === signer && found.digest === digest(text)
}
