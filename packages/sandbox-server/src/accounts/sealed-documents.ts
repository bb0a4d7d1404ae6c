import { Problem } from '@slipway/protocol'
import type { Cipher, DocumentStore } from '@slipway/storage'

/** What is kept of each user as one sealed JSON text a name. */
export class SealedDocuments {
  readonly #rows: DocumentStore
  readonly #cipher: Cipher

  constructor(rows: DocumentStore, cipher: Cipher) {
    this.#rows = rows
    this.#cipher = cipher
  }

  /** Undefined when nothing was written. A Problem `unavailable` when it was sealed with another key. */
  async get(owner: string | null, name: string): Promise<unknown> {
    const sealed = await this.#rows.get(owner ?? '', name)
    return sealed === undefined ? undefined : this.#open(sealed)
  }

  /** Puts what `make` gives in the place of what is there, one change after another. What it throws leaves all as it was. */
  async update(owner: string | null, name: string, edit: (old: unknown) => unknown): Promise<void> {
    await this.#rows.update(owner ?? '', name, (sealed) => {
      const updated = edit(sealed === undefined ? undefined : this.#open(sealed))
      return updated === undefined ? undefined : this.#cipher.seal(JSON.stringify(updated))
    })
  }

  #open(sealed: Buffer): unknown {
    const text = this.#cipher.open(sealed)
    if (text !== undefined) return JSON.parse(text)
    throw new Problem(
      'unavailable',
      'What is stored was sealed with another key. Start the server with that SLIPWAY_SECRET_KEY.',
    )
  }
}
