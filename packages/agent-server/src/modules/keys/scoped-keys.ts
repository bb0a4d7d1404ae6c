import { hash, randomBytes, randomUUID, timingSafeEqual } from 'node:crypto'
import { type ScopedKey, scopedKeyPrefix } from '@slipway/http'
import {
  type CreateScopedKeyRequest,
  Problem,
  parseInstant,
  type ScopedKeyInfo,
  type StoredScopedKey,
  storedScopedKey,
} from '@slipway/protocol'
import type { Clock } from '@slipway/shared/time'
import type { Cipher, JsonDocument } from '@slipway/storage'
import type { ServerDocuments } from '../../core/documents/configured-documents.ts'
import { openDocument } from '../../core/documents/document.ts'

const maxKeys = 1_000
const documentName = 'keys.sealed'

/**
 * Keys that may do less than a session key: one sealed document with the digest of each. It is read for each
 * request, so that a key that another server has revoked opens nothing.
 */
export class ScopedKeys {
  readonly #document: JsonDocument<readonly StoredScopedKey[]>
  readonly #clock: Clock

  constructor(options: {
    readonly documents: ServerDocuments
    readonly cipher: Cipher
    readonly clock: Clock
  }) {
    const { documents, cipher, clock } = options
    this.#clock = clock
    this.#document = openDocument(documents, documentName, {
      cipher,
      empty: [] as readonly StoredScopedKey[],
      parse: (value) => storedScopedKey.array().parse(value),
    })
  }

  /** The key with this text; undefined when it is none, or has ended. All are compared, in constant time. */
  async find(key: string): Promise<ScopedKey | undefined> {
    const digest = Buffer.from(digestOf(key), 'hex')
    const all = await this.#document.read()
    let found: StoredScopedKey | undefined
    for (const one of all) if (timingSafeEqual(Buffer.from(one.digest, 'hex'), digest)) found = one
    if (found === undefined || this.#hasEnded(found)) return undefined
    const { id, scopes, conversation_id } = found
    return { id, scopes, conversation: conversation_id }
  }

  /** The newest first. */
  async list(): Promise<ScopedKeyInfo[]> {
    return (await this.#document.read()).map(({ digest: _, ...info }) => info).reverse()
  }

  /** A Problem `conflict` when there are too many that have not ended. */
  async create(request: CreateScopedKeyRequest): Promise<ScopedKeyInfo & { readonly key: string }> {
    const { name, scopes, conversation_id = null, expires_at = null } = request
    const key = scopedKeyPrefix + randomBytes(32).toString('base64url')
    const created_at = new Date(this.#clock.now()).toISOString()
    const info = {
      id: randomUUID(),
      name,
      scopes: [...new Set(scopes)],
      conversation_id,
      created_at,
      expires_at,
    }
    await this.#document.update((all) => {
      const valid = all.filter((one) => !this.#hasEnded(one))
      if (valid.length >= maxKeys)
        throw new Problem('conflict', `There are ${maxKeys} keys already: revoke one`)
      return [...valid, { ...info, digest: digestOf(key) }]
    })
    return { ...info, key }
  }

  /** A Problem `not_found` for an unknown id. */
  async remove(id: string): Promise<void> {
    await this.#document.update((all) => {
      if (!all.some((one) => one.id === id)) throw new Problem('not_found', 'There is no such key')
      return all.filter((one) => one.id !== id)
    })
  }

  /** Those that are bound to a conversation that is gone: its id may be used again. */
  async removeOf(conversation: string): Promise<void> {
    await this.#document.update((all) => {
      const left = all.filter((one) => one.conversation_id !== conversation)
      return left.length === all.length ? all : left
    })
  }

  #hasEnded({ expires_at }: Pick<ScopedKeyInfo, 'expires_at'>): boolean {
    return expires_at !== null && (parseInstant(expires_at) ?? 0) <= this.#clock.now() * 1000
  }
}

function digestOf(key: string): string {
  return hash('sha256', key)
}
