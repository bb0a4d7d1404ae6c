import { Problem } from '@slipway/protocol'
import { type Cipher, type DocumentStore, JsonDocument, unreadableReasons } from '@slipway/storage'

export interface AccountDocuments {
  readonly documents: DocumentStore
  readonly cipher: Cipher
}

/** Sealed. A document grows by merging, so that a limit of requests alone would not bound it. */
const maxDocumentBytes = 8 * 1024 * 1024

/**
 * One sealed document per user. Problems: `unavailable` when it was sealed with another key, `too_large` when
 * an
 * update makes it larger than 8 MiB.
 */
export function userDocument<T>(
  { documents, cipher }: AccountDocuments,
  name: string,
  { empty, parse, show }: Pick<ConstructorParameters<typeof JsonDocument<T>>[0], 'empty' | 'parse' | 'show'>,
): JsonDocument<T> {
  return new JsonDocument({
    store: limitSize(documents),
    cipher,
    name,
    empty,
    parse,
    show,
    unreadable: (reason) =>
      new Problem(
        'unavailable',
        `The stored data (${name}) cannot be read: ${unreadableReasons[reason]}. Start the server with the SLIPWAY_SECRET_KEY and the version that wrote it, or restore a backup.`,
      ),
  })
}

function limitSize(documents: DocumentStore): DocumentStore {
  return {
    get: (user, name) => documents.get(user, name),
    list: (user) => documents.list(user),
    update: (user, name, make, describe) => {
      const makeBounded = (old: Buffer | undefined) => {
        const updated = make(old)
        if (updated !== undefined && updated.length > maxDocumentBytes)
          throw new Problem('too_large', 'What is stored would become too large')
        return updated
      }
      return documents.update(user, name, makeBounded, describe)
    },
  }
}
