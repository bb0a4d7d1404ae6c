import { profileName } from '@slipway/protocol'
import { parseJson } from '@slipway/shared/json'
import { sealedVersion } from '../crypto/cipher.ts'

/** The documents of an agent server without its profiles, by the names of the files of earlier versions. */
export const documentNames: readonly string[] = [
  'agent-profiles.sealed',
  'credential-bindings.json',
  'export-key.sealed',
  'keys.sealed',
  'meta-profiles.json',
  'provider-connections.sealed',
  'repository-consents.sealed',
  'secrets.sealed',
  'settings.sealed',
  'subscription.sealed',
  'workspaces.json',
]
/** Its files ended in `.json`, each a document. */
export const profileFolder = 'profiles'

export function isDocumentName(name: string): boolean {
  const [, profile] = /^profiles\/(.*)\.json$/s.exec(name) ?? []
  return documentNames.includes(name) || profileName.safeParse(profile).success
}

/** The document as its file has it: a line of base64 where it is sealed, else UTF-8 text. */
export function documentEncoding(name: string): 'base64' | 'utf8' {
  return name.endsWith('.sealed') ? 'base64' : 'utf8'
}

/** A document from the text of its file; undefined for one that was cut or is of another form. */
export function parseDocument(name: string, text: string): Buffer | undefined {
  const bytes = Buffer.from(text, documentEncoding(name))
  if (documentEncoding(name) === 'utf8') return parseJson(text) === undefined ? undefined : bytes
  const isWhole = bytes.toString('base64') === text.trim() && bytes[0] === sealedVersion
  return isWhole ? bytes : undefined
}
