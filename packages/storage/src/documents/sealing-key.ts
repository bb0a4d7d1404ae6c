import type { Cipher } from '../crypto/cipher.ts'
import type { DocumentStore } from './document-store.ts'

const name = 'sealing-key-check'
const text = 'sealed by the control plane'

/**
 * Servers that share documents need the same key. The first one leaves a mark in them. Rejects with a plain
 * Error, and the next step, where the mark, or in documents without one what is sealed, has another key.
 */
export async function assertSealingKey(documents: DocumentStore, cipher: Cipher): Promise<void> {
  let known = await documents.get('', name)
  if (known === undefined) {
    for (const sealed of (await documents.list('')).filter((name) => name.endsWith('.sealed'))) {
      const bytes = await documents.get('', sealed)
      if (bytes !== undefined && cipher.open(bytes) === undefined) throw otherKey()
    }
    await documents.update('', name, (old) => {
      known = old ?? cipher.seal(text)
      return known
    })
  }
  if (known !== undefined && cipher.open(known) !== text) throw otherKey()
}

function otherKey(): Error {
  return new Error(
    'The database was sealed with another key: start every server with the same SLIPWAY_SECRET_KEY, or with the secret.key of the first one',
  )
}
