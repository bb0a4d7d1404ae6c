import type { LogFunction } from '@slipway/protocol'
import type { Cipher } from '../crypto/cipher.ts'
import type { DocumentStore } from './document-store.ts'

const name = 'sealing-key-check'
const text = 'sealed by the control plane'

/**
 * Servers that share documents need the same key. The first one leaves a mark in them. Rejects with a plain
 * Error, and the next step, where the mark, or in documents without one all that is sealed, has another key.
 */
export async function assertSealingKey(
  documents: DocumentStore,
  cipher: Cipher,
  log: LogFunction = () => {},
): Promise<void> {
  let known = await documents.get('', name)
  if (known === undefined) {
    const [opened, others] = [[] as string[], [] as string[]]
    for (const sealed of (await documents.list('')).filter((name) => name.endsWith('.sealed'))) {
      const bytes = await documents.get('', sealed)
      if (bytes !== undefined) (cipher.open(bytes) === undefined ? others : opened).push(sealed)
    }
    if (opened.length === 0 && others.length > 0) throw otherKey()
    for (const document of others)
      log('warn', 'a document is damaged, or was sealed with another key', { document })
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
