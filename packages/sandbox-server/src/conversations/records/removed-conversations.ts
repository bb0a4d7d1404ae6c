import type { DocumentRows } from '@slipway/storage'

const maxRemembered = 10_000
const documentName = (sandbox: string) => `removed-conversations:${sandbox}`

/**
 * Conversations that were deleted here while their agent server may still have them: what it sends of them does not bring
 * them back. Kept durably only for sandboxes that live on.
 */
export class Removals {
  readonly #documents: DocumentRows
  readonly #recent = new Set<string>()

  constructor(documents: DocumentRows) {
    this.#documents = documents
  }

  async add(conversation: string, sandbox: string, options: { readonly isKept: boolean }): Promise<void> {
    this.#recent.add(conversation)
    for (const oldest of this.#recent) {
      if (this.#recent.size <= maxRemembered) break
      this.#recent.delete(oldest)
    }
    if (options.isKept) await this.#change(sandbox, (ids) => ids.add(conversation))
    else await this.#change(sandbox, (ids) => ids.clear())
  }

  async has(conversation: string, sandbox: string): Promise<boolean> {
    if (this.#recent.has(conversation)) return true
    return idsIn(await this.#documents.get('', documentName(sandbox))).has(conversation)
  }

  /** The agent server has it no more, or it was begun anew. */
  async forget(conversation: string, sandbox: string): Promise<void> {
    this.#recent.delete(conversation)
    if (await this.has(conversation, sandbox)) await this.#change(sandbox, (ids) => ids.delete(conversation))
  }

  async #change(sandbox: string, change: (ids: Set<string>) => unknown): Promise<void> {
    await this.#documents.change('', documentName(sandbox), (old) => {
      const ids = idsIn(old)
      change(ids)
      return ids.size === 0 ? undefined : Buffer.from(JSON.stringify([...ids]))
    })
  }
}

function idsIn(document: Buffer | undefined): Set<string> {
  return new Set<string>(document === undefined ? [] : JSON.parse(document.toString()))
}
