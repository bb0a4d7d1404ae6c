import { isRecord } from '@slipway/shared/json'
import { createSigningKey, isPublicKeyText, publicKeyText, type SigningKey } from '@slipway/shared/signed-log'
import type { Cipher } from '@slipway/storage'
import type { ServerDocuments } from '../../core/documents/configured-documents.ts'
import { openDocument } from '../../core/documents/document.ts'

/**
 * The key that signs verifiable exports: made at the first one, sealed as other secrets, and one for all
 * servers of a database. Backups with secrets contain it.
 */
export class ExportKey {
  readonly #document: ReturnType<typeof openKey>
  #publicKey: string | null = null
  #isReading = false

  private constructor(options: { readonly documents: ServerDocuments; readonly cipher: Cipher }) {
    this.#document = openKey(options)
  }

  static async open(options: {
    readonly documents: ServerDocuments
    readonly cipher: Cipher
  }): Promise<ExportKey> {
    const key = new ExportKey(options)
    await key.#look()
    return key
  }

  /** Null before the first export. One that another server made meanwhile is seen by the next call. */
  get publicKey(): string | null {
    if (this.#publicKey === null && !this.#isReading) void this.#look()
    return this.#publicKey
  }

  /** A Problem `conflict` when the stored key cannot be read: it is never replaced. */
  async get(): Promise<SigningKey> {
    const key = (await this.#document.update((stored) => stored ?? createSigningKey())) as SigningKey
    this.#publicKey = publicKeyText(key)
    return key
  }

  /** Never rejects: who asks for the server's versions needs no readable key. */
  async #look(): Promise<void> {
    this.#isReading = true
    const key = await this.#document.read().catch(() => undefined)
    this.#isReading = false
    if (key !== undefined) this.#publicKey = publicKeyText(key)
  }
}

function openKey({ documents, cipher }: { readonly documents: ServerDocuments; readonly cipher: Cipher }) {
  return openDocument<SigningKey | undefined>(documents, 'export-key.sealed', {
    cipher,
    empty: undefined,
    parse: (value) => {
      if (!isRecord(value)) throw new Error('not a key')
      const { private_key, public_key } = value
      if (typeof private_key !== 'string' || typeof public_key !== 'string') throw new Error('not a key')
      if (!isPublicKeyText(publicKeyText({ public_key }))) throw new Error('not a key')
      return { private_key, public_key }
    },
  })
}
