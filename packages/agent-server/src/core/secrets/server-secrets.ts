import { secretName } from '@slipway/protocol'
import { decodePercent } from '@slipway/shared/url'
import { type Cipher, type DocumentStore, NamedSecrets, secretsFormat } from '@slipway/storage'
import { openDocument } from '../documents/document.ts'

const maxCharacters = 4_000_000
const secretPathPattern = /^\/api\/settings\/secrets\/([^/?#]+)$/

/**
 * The named secrets of the server's user, in one sealed document. An unreadable one is a Problem `conflict`.
 */
export class ServerSecrets extends NamedSecrets {
  constructor({ documents, cipher }: { readonly documents: DocumentStore; readonly cipher: Cipher }) {
    super(openDocument(documents, 'secrets.sealed', { ...secretsFormat, cipher }), { maxCharacters })
  }
}

/** The secret's name in a path of this server, `/api/settings/secrets/NAME`; undefined for any other URL. */
export function parseSecretPath(url: string): string | undefined {
  const name = decodePercent(secretPathPattern.exec(url)?.[1] ?? '')
  return secretName.safeParse(name).success ? name : undefined
}
