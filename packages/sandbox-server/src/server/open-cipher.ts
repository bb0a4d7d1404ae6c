import type { LogFunction } from '@slipway/protocol'
import { assertSealingKey, Cipher } from '@slipway/storage'
import type { ControlPlaneStore } from '@slipway/storage/control-plane'
import type { Config } from '../config/config.ts'

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
  if (leases.isShared) await assertSealingKey(documents, cipher)
  return cipher
}
