import type { DocumentStore } from '@slipway/storage'

const maxRecent = 10_000
const documentName = (sandbox: string) => `removed-conversations:${sandbox}`

/** Deleted conversations: late events do not restore them. Durable only for sandboxes that still exist. */
export class RemovedConversations {
  readonly #documents: DocumentStore
  readonly #isShared: boolean
  readonly #recent = new Set<string>()

  /** `isShared`: other servers remove conversations too, so that memory knows nothing. */
  constructor(documents: DocumentStore, { isShared }: { readonly isShared: boolean } = { isShared: false }) {
    this.#documents = documents
    this.#isShared = isShared
  }

  async add(conversation: string, sandbox: string, options: { readonly isDurable: boolean }): Promise<void> {
    if (!this.#isShared) this.#recent.add(conversation)
    for (const oldest of this.#recent) {
      if (this.#recent.size <= maxRecent) break
      this.#recent.delete(oldest)
    }
    if (options.isDurable) await this.#update(sandbox, (ids) => ids.add(conversation))
    else await this.#update(sandbox, (ids) => ids.clear())
  }

  async has(conversation: string, sandbox: string): Promise<boolean> {
    if (this.#recent.has(conversation)) return true
    return decodeIds(await this.#documents.get('', documentName(sandbox))).has(conversation)
  }

  /** The agent server has removed it, or it is started again. */
  async forget(conversation: string, sandbox: string): Promise<void> {
    this.#recent.delete(conversation)
    if (await this.has(conversation, sandbox)) await this.#update(sandbox, (ids) => ids.delete(conversation))
  }

  async #update(sandbox: string, edit: (ids: Set<string>) => unknown): Promise<void> {
    await this.#documents.update('', documentName(sandbox), (old) => {
      const ids = decodeIds(old)
      edit(ids)
      return ids.size === 0 ? undefined : Buffer.from(JSON.stringify([...ids]))
    })
  }
}

function decodeIds(document: Buffer | undefined): Set<string> {
  return new Set<string>(document === undefined ? [] : JSON.parse(document.toString()))
}
