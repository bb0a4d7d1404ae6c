import type { Cipher } from '@slipway/storage'
import type { SandboxRow } from '@slipway/storage/control-plane'
import type { SandboxConfig } from '../../backends/backend.ts'

/** The sealed part of a row. */
export interface SandboxSecrets {
  /** Its session key; null in the warm pool of earlier versions. */
  readonly key: string | null
  /**
   * Authenticates the init request of a sandbox from the warm pool of an earlier version; null for others.
   */
  readonly initKey: string | null
  readonly order: SandboxConfig
  /** See `configHash`, at its creation. */
  readonly specHash: string
}

export function sealSecrets(cipher: Pick<Cipher, 'seal'>, secrets: SandboxSecrets): Buffer {
  // JSON escapes lone surrogates, which UTF-8 does not have.
  return cipher.seal(JSON.stringify(secrets))
}

/** Undefined when they are sealed with another key. */
export function openSecrets(
  cipher: Pick<Cipher, 'open'>,
  { sealed }: Pick<SandboxRow, 'sealed'>,
): SandboxSecrets | undefined {
  const text = cipher.open(sealed)
  return text === undefined ? undefined : (JSON.parse(text) as SandboxSecrets)
}
