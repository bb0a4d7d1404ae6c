import { join } from 'node:path'
import { secretName } from '@slipway/protocol'
import { decodePercent } from '@slipway/shared/url'
import { type Cipher, NamedSecrets, secretsFormat } from '@slipway/storage'
import { openJsonFile } from '../documents/json-file.ts'

const maxCharacters = 4_000_000
const secretPathPattern = /^\/api\/settings\/secrets\/([^/?#]+)$/

/** The named secrets of the server's user, in one sealed file. An unreadable file is a Problem `conflict`. */
export class ServerSecrets extends NamedSecrets {
  constructor({ directory, cipher }: { readonly directory: string; readonly cipher: Cipher }) {
    super(openJsonFile({ ...secretsFormat, path: join(directory, 'secrets.sealed'), cipher }), {
      maxCharacters,
    })
  }
}

/** The secret's name in a path of this server, `/api/settings/secrets/NAME`; undefined for any other URL. */
export function parseSecretPath(url: string): string | undefined {
  const name = decodePercent(secretPathPattern.exec(url)?.[1] ?? '')
  return secretName.safeParse(name).success ? name : undefined
}
