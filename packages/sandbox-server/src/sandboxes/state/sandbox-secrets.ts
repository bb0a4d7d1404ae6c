import type { Cipher, SandboxRow } from '@slipway/storage'
import type { SandboxConfig } from '../../backends/backend.ts'

/** What is kept of a sandbox under seal. */
export interface SandboxSecrets {
  /** Its session key; null as long as it is nobody's. */
  readonly key: string | null
  /** What lets the control plane give its settings to one that was started without; null for others. */
  readonly initKey: string | null
  readonly order: SandboxConfig
  /** Of the spec that it was made from, as it was then. */
  readonly specHash: string
}

/** Seals what the ledger keeps of a sandbox. */
export class SandboxSecretsCipher {
  readonly #cipher: Pick<Cipher, 'seal' | 'open'>

  constructor(cipher: Pick<Cipher, 'seal' | 'open'>) {
    this.#cipher = cipher
  }

  seal(secrets: SandboxSecrets): Buffer {
    // A lone surrogate has no UTF-8: JSON writes it as an escape.
    return this.#cipher.seal(JSON.stringify(secrets))
  }

  /** Undefined when it was sealed with a key that the server has no more. */
  open(row: Pick<SandboxRow, 'sealed'>): SandboxSecrets | undefined {
    const text = this.#cipher.open(row.sealed)
    return text === undefined ? undefined : (JSON.parse(text) as SandboxSecrets)
  }
}
