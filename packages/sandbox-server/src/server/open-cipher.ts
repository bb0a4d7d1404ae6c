import type { LogFunction } from '@slipway/protocol'
import { Cipher } from '@slipway/storage'
import type { ControlPlaneStore } from '@slipway/storage/control-plane'
import type { Config } from '../config/config.ts'

const documentName = 'sealing-key-check'
const text = 'sealed by the control plane'

/**
 * The cipher of the data directory or of `SLIPWAY_SECRET_KEY`. Servers that share a database need the same
 * key: rejects with a plain Error for another one.
 */
export async function openCipher(
  { secretKey }: Pick<Config, 'secretKey'>,
  directory: string,
  { documents, leases }: Pick<ControlPlaneStore, 'documents' | 'leases'>,
  log: LogFunction,
): Promise<Cipher> {
  const cipher = await Cipher.open({ directory, secretKey, log })
  if (!leases.isShared) return cipher
  const known = await documents.get('', documentName)
  if (known === undefined) await documents.update('', documentName, () => cipher.seal(text))
  else if (cipher.open(known) !== text)
    throw new Error(
      'The database was sealed with another key: start every server with the same SLIPWAY_SECRET_KEY, or with the secret.key of the first one',
    )
  return cipher
}
