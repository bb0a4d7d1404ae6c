import { Problem } from '@slipway/protocol'
import { type Cipher, type DocumentStore, JsonDocument } from '@slipway/storage'

export interface AccountDocuments {
  readonly documents: DocumentStore
  readonly cipher: Cipher
}

/** One sealed document per user. A Problem `unavailable` when it was sealed with another key. */
export function userDocument<T>(
  { documents, cipher }: AccountDocuments,
  name: string,
  { empty, parse }: { readonly empty: T; readonly parse: (value: unknown) => T },
): JsonDocument<T> {
  return new JsonDocument({
    store: documents,
    cipher,
    name,
    empty,
    parse,
    unreadable: () =>
      new Problem(
        'unavailable',
        'The stored data was sealed with another key. Start the server with that SLIPWAY_SECRET_KEY.',
      ),
  })
}
